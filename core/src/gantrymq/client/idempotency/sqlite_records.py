"""Records in a SQLite file, using the standard library.

Transactions begin with BEGIN IMMEDIATE: SQLite has one writer at a time, so a second one waits at the start instead of
failing later. The settings of the file are not changed.
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

_TIMEOUT_S: Final = 30.0


class SqliteRecords:
    """Records for any number of threads of one process; other processes use their own instance."""

    blocking = True
    conflicts: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)
    writers: int | None = 1

    def __init__(self, path: str | os.PathLike[str], *, table: str = TABLE, timeout_s: float = _TIMEOUT_S) -> None:
        """Create the records; nothing is opened yet.

        Args:
            path: of the database file with the business tables; created if it does not exist.
            table: name of the table of records.
            timeout_s: seconds to wait for another writer.

        Raises:
            InvalidParameter: *path* is an in-memory database, which a second connection cannot see, or *table* is not a
                valid name.
        """
        self._path = os.fspath(path)
        if self._path in ("", ":memory:"):
            raise InvalidParameter("records must outlive the process; give SqliteRecords the path of a file")
        if not table.isidentifier():
            raise InvalidParameter(f"{table!r} is not a valid table name; expected letters, digits and underscores")
        self._table = table
        self._timeout_s = timeout_s
        self._writing = threading.Lock()
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """Implement `Records.for_event_loop`."""
        return WorkerThreadRecords(self, workers, threads)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a connection in a transaction that is committed at the end and rolled back after an exception.

        Raises:
            CallTimeout: other threads write for longer than ``timeout_s``.
            ClientError: the transaction was ended by the handler.
            sqlite3.Error: errors of SQLite, such as "database is locked" by another process.
        """
        if not self._writing.acquire(timeout=self._timeout_s):
            raise CallTimeout(f"{self._path} is being written by another transaction for {self._timeout_s:g} s")
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    if not connection.in_transaction:
                        raise ClientError("a handler ended its transaction; leave that to idempotent")
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        finally:
            self._writing.release()

    def prepare(self) -> None:
        """Create table and index if they do not exist."""
        with self.transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (consumer_group VARCHAR(255) NOT NULL, "
                "message_key VARCHAR(255) NOT NULL, place VARCHAR(255) NOT NULL, consumed_at_ms BIGINT NOT NULL, "
                "PRIMARY KEY (consumer_group, message_key), UNIQUE (consumer_group, place)) WITHOUT ROWID"
            )
            connection.execute(f"CREATE INDEX IF NOT EXISTS {self._table}_at ON {self._table} (consumed_at_ms)")

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded."""
        marks, wanted = ", ".join("?" * len(names)), set(names)
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT message_key, place FROM {self._table} WHERE consumer_group = ? AND message_key IN ({marks}) "
                f"UNION SELECT message_key, place FROM {self._table} WHERE consumer_group = ? AND place IN ({marks})",
                (group, *names, group, *names),
            ).fetchall()
        return wanted.intersection(name for row in rows for name in row)

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""
        with self._connection() as connection:
            row = connection.execute(
                f"SELECT message_key FROM {self._table} WHERE consumer_group = ? AND message_key >= ? "
                "ORDER BY message_key LIMIT 1",
                (group, prefix),
            ).fetchone()
        return row[0] if row is not None and row[0].startswith(prefix) else None

    def add(self, connection: sqlite3.Connection, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows*. Raises sqlite3.IntegrityError: a key or place exists already."""
        connection.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?)", rows)

    def prune(self, before_ms: int) -> int:
        """Delete rows written before *before_ms*."""
        oldest = f"SELECT consumer_group, message_key FROM {self._table} WHERE consumed_at_ms < ? LIMIT {PRUNE_BATCH}"
        with self.transaction() as connection:
            return connection.execute(
                f"DELETE FROM {self._table} WHERE (consumer_group, message_key) IN ({oldest})", (before_ms,)
            ).rowcount

    def close(self) -> None:
        """Close the connections; those in use are closed when they are released."""
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
