"""Blocking database calls in the calling thread, without an event loop.

The steps of `consuming` are coroutines. Here nothing that they await ever suspends, so a step runs to its end when it
is started.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from gantrymq.client.idempotency.records import BlockingRecords, ConsumedRecord

__all__ = ["CallerThreadRecords", "run_without_loop"]

T = TypeVar("T")


class CallerThreadRecords:
    """`AsyncRecords` of `BlockingRecords`; calls block the calling thread."""

    def __init__(self, records: BlockingRecords) -> None:
        self._records = records
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Do nothing: the calling thread is the slot."""
        return nullcontext()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Implement `AsyncRecords.transaction` with the database connection itself."""
        with self._records.transaction() as connection:
            yield connection

    async def prepare(self) -> None:
        """Implement `AsyncRecords.prepare`."""
        self._records.prepare()

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Implement `AsyncRecords.known`."""
        return self._records.known(group, names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Implement `AsyncRecords.key_with_prefix`."""
        return self._records.key_with_prefix(group, prefix)

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Implement `AsyncRecords.add`."""
        self._records.add(connection, rows)

    async def prune(self, before_ms: int) -> int:
        """Implement `AsyncRecords.prune`."""
        return self._records.prune(before_ms)


def run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run *work*, which must not suspend, and return its result or raise its error."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a step of idempotent consumption waited for an event loop, and there is none")
