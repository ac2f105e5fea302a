"""Records in a file of SQLite, by the standard library.

A transaction begins with BEGIN IMMEDIATE: SQLite has one writer at a time, and whoever comes second waits at the door
instead of failing inside. Nothing of the file's settings is changed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from gantrymq.client.idempotency.records import PRUNE_BATCH, TABLE, AsyncRecords, ConsumedRecord
from gantrymq.client.idempotency.threads import WorkerThreadRecords
from gantrymq.errors import CallTimeout, ClientError, InvalidParameter
from gantrymq.world import Workers

__all__ = ["SqliteRecords"]

TIMEOUT_S: Final = 30.0


class SqliteRecords:
    """Belongs to one process, in which any number of threads may use it; other processes have one of their own."""

    blocking = True
    conflicts: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    writers: int | None = 1

    def __init__(self, path: str | os.PathLike[str], *, table: str = TABLE, timeout_s: float = TIMEOUT_S) -> None:
        """Nothing is opened yet.

        Args:
            path: of the database file, the one of the business tables; made where it is missing.
            table: name of the table of records.
            timeout_s: seconds to wait for another writer.

        Raises:
            InvalidParameter: *path* is a database in memory, which no second connection can see, or *table* no name.
        """
        self._path = os.fspath(path)
        if self._path in ("", ":memory:"):
            raise InvalidParameter("records that outlive the process need a file; give SqliteRecords the path of one")
        if not table.isidentifier():
            raise InvalidParameter(f"{table!r} is no name of a table; expected letters, digits and underscores")
        self._table = table
        self._timeout_s = timeout_s
        self._writing = threading.Lock()
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """As `Records` has it."""
        return WorkerThreadRecords(self, workers, threads)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction, committed at the end and rolled back after an exception.

        Raises:
            CallTimeout: other threads write for too long.
            ClientError: the transaction was ended inside.
            sqlite3.Error: what SQLite says, such as "database is locked" beside another process.
        """
        if not self._writing.acquire(timeout=self._timeout_s):
            raise CallTimeout(f"{self._path} is being written by another transaction for {self._timeout_s:g} s")
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    if not connection.in_transaction:
                        raise ClientError("a handler ended the transaction that it was given; leave that to idempotent")
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        finally:
            self._writing.release()

    def prepare(self) -> None:
        """Make table and index where they are missing."""
        with self.transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (consumer_group VARCHAR(255) NOT NULL, "
                "message_key VARCHAR(255) NOT NULL, place VARCHAR(255) NOT NULL, consumed_at_ms BIGINT NOT NULL, "
                "PRIMARY KEY (consumer_group, message_key), UNIQUE (consumer_group, place)) WITHOUT ROWID"
            )
            connection.execute(f"CREATE INDEX IF NOT EXISTS {self._table}_at ON {self._table} (consumed_at_ms)")

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Those of *names* that are recorded."""
        marks, wanted = ", ".join("?" * len(names)), set(names)
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT message_key, place FROM {self._table} WHERE consumer_group = ? AND message_key IN ({marks}) "
                f"UNION SELECT message_key, place FROM {self._table} WHERE consumer_group = ? AND place IN ({marks})",
                (group, *names, group, *names),
            ).fetchall()
        return wanted.intersection(name for row in rows for name in row)

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """A key that begins with *prefix*."""
        with self._connection() as connection:
            row = connection.execute(
                f"SELECT message_key FROM {self._table} WHERE consumer_group = ? AND message_key >= ? "
                "ORDER BY message_key LIMIT 1",
                (group, prefix),
            ).fetchone()
        return row[0] if row is not None and row[0].startswith(prefix) else None

    def add(self, connection: sqlite3.Connection, rows: Sequence[ConsumedRecord]) -> None:
        """Write *rows*. Raises sqlite3.IntegrityError: one of them is taken."""
        connection.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?)", rows)

    def prune(self, before_ms: int) -> int:
        """Forget what was written before *before_ms*."""
        oldest = f"SELECT consumer_group, message_key FROM {self._table} WHERE consumed_at_ms < ? LIMIT {PRUNE_BATCH}"
        with self.transaction() as connection:
            return connection.execute(
                f"DELETE FROM {self._table} WHERE (consumer_group, message_key) IN ({oldest})", (before_ms,)
            ).rowcount

    def close(self) -> None:
        """Close the connections; those in use when they are given back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._guard:
            if self._closed:
                raise ClientError(f"the records in {self._path} are closed")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = sqlite3.connect(
                self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
            )
        try:
            yield connection
        finally:
            with self._guard:
                keep = not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
