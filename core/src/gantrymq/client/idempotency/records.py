"""What idempotent consumption asks of a database.

One table, made when it is missing:

    CREATE TABLE gantrymq_consumed (
        consumer_group  VARCHAR(255) NOT NULL,
        message_key     VARCHAR(255) NOT NULL,      -- see `identity`
        place           VARCHAR(255) NOT NULL,
        consumed_at_ms  BIGINT NOT NULL,            -- since 1970
        PRIMARY KEY (consumer_group, message_key),
        UNIQUE (consumer_group, place)
    );
    CREATE INDEX gantrymq_consumed_at ON gantrymq_consumed (consumed_at_ms);

The primary key and the unique place decide between two members that have the same message: the second one to write
waits for the first, and is refused when that one commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from gantrymq.world import Workers

__all__ = ["PRUNE_BATCH", "TABLE", "AsyncRecords", "BlockingRecords", "ConsumedRecord", "Records"]

TABLE: Final = "gantrymq_consumed"
PRUNE_BATCH: Final = 1000  # rows of one statement


class ConsumedRecord(NamedTuple):
    """One row."""

    consumer_group: str
    message_key: str
    place: str
    consumed_at_ms: int  # since 1970


class Records(Protocol):
    """A table of what was consumed, beside the tables of the application."""

    @property
    def blocking(self) -> bool:
        """Whether its calls block, so that plain handlers may use its connection."""

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """The same for an event loop, where blocking calls are made by up to *threads* of *workers*."""

    def close(self) -> None:
        """Close what it opened itself."""


class AsyncRecords(Protocol):
    """Records as an event loop uses them."""

    conflicts: tuple[type[Exception], ...]  # raised where a key or a place is taken

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Entered around all that is done for a message, so that it has a thread whenever it needs one."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A connection in a transaction, which is committed at the end, or rolled back after an exception."""

    async def prepare(self) -> None:
        """Make the table where it is missing."""

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Those of *names* that are recorded, as keys or places, and committed."""

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """A recorded key that begins with *prefix*; None where there is none."""

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Write *rows* in the transaction of *connection*. Raises one of ``conflicts``: one of them is taken."""

    async def prune(self, before_ms: int) -> int:
        """Forget up to PRUNED_AT_ONCE rows written before *before_ms*; returns how many."""


class BlockingRecords(Protocol):
    """Records whose calls block, each of them in whatever thread; meant as in `AsyncRecords`."""

    conflicts: tuple[type[Exception], ...]
    writers: int | None  # transactions that may be open together; None for any number

    def transaction(self) -> AbstractContextManager[Any]:
        """A connection in a transaction."""

    def prepare(self) -> None:
        """Make the table."""

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Those recorded."""

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """The key that begins so."""

    def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Write in a transaction."""

    def prune(self, before_ms: int) -> int:
        """Forget."""
