"""Interface between idempotent consumption and a database.

One table, created if it does not exist:

    CREATE TABLE gantrymq_consumed (
        consumer_group  VARCHAR(255) NOT NULL,
        message_key     VARCHAR(255) NOT NULL,      -- see `identity`
        place           VARCHAR(255) NOT NULL,
        consumed_at_ms  BIGINT NOT NULL,            -- since 1970
        PRIMARY KEY (consumer_group, message_key),
        UNIQUE (consumer_group, place)
    );
    CREATE INDEX gantrymq_consumed_at ON gantrymq_consumed (consumed_at_ms);

The primary key and the unique place decide between two members that have the same message: the second one to insert
waits for the first, and gets a conflict when that one commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from gantrymq.world import Workers

TABLE: Final = "gantrymq_consumed"
PRUNE_BATCH: Final = 1000  # rows per statement


class ConsumedRecord(NamedTuple):
    """One row of the table."""

    consumer_group: str
    message_key: str
    place: str
    consumed_at_ms: int  # since 1970


class Records(Protocol):
    """A table of consumed messages in the database of the application."""

    @property
    def blocking(self) -> bool:
        """Whether its calls block, so that plain handlers can use its connection."""

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """Return the same records for an event loop; blocking calls run in up to *threads* of *workers*."""

    def close(self) -> None:
        """Close connections that it opened itself."""


class AsyncRecords(Protocol):
    """Records for an event loop."""

    conflicts: tuple[type[Exception], ...]  # raised if a key or a place exists already

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Enter before all work for a message, so that a thread is available whenever it is needed."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a connection in a transaction that is committed at the end, or rolled back after an exception."""

    async def prepare(self) -> None:
        """Create the table if it does not exist."""

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded, as keys or places, and committed."""

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a recorded key that begins with *prefix*, None if there is none."""

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows* in the transaction of *connection*.

        Raises:
            one of ``conflicts``: a key or a place exists already.
        """

    async def prune(self, before_ms: int) -> int:
        """Delete up to PRUNE_BATCH rows written before *before_ms*; returns how many."""


class BlockingRecords(Protocol):
    """Records with blocking calls that may be made in any thread; methods as in `AsyncRecords`."""

    conflicts: tuple[type[Exception], ...]
    writers: int | None  # maximum number of concurrent transactions; None for no limit

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a connection in a transaction."""

    def prepare(self) -> None:
        """Create the table if it does not exist."""

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return the recorded names."""

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""

    def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Insert rows in a transaction."""

    def prune(self, before_ms: int) -> int:
        """Delete old rows."""
