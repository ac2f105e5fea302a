"""A database whose calls block, in a thread that may wait: no event loop.

The steps of `consuming` are written once, with ``await``. Here nothing that they await ever waits, so that a step is
run by beginning it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from gantrymq.client.idempotency.records import BlockingRecords, ConsumedRecord

__all__ = ["CallerThreadRecords", "run_without_loop"]

T = TypeVar("T")


class CallerThreadRecords:
    """`AsyncRecords` of `BlockingRecords`, whose calls block the thread that makes them."""

    def __init__(self, records: BlockingRecords) -> None:
        self._records = records
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """A thread is there already."""
        return nullcontext()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """As `AsyncRecords` has it, with the database's own connection."""
        with self._records.transaction() as connection:
            yield connection

    async def prepare(self) -> None:
        """As `AsyncRecords` has it."""
        self._records.prepare()

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """As `AsyncRecords` has it."""
        return self._records.known(group, names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """As `AsyncRecords` has it."""
        return self._records.key_with_prefix(group, prefix)

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """As `AsyncRecords` has it."""
        self._records.add(connection, rows)

    async def prune(self, before_ms: int) -> int:
        """As `AsyncRecords` has it."""
        return self._records.prune(before_ms)


def run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """What *work* returns or raises; it awaits nothing that waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a step of idempotent consumption waited for an event loop, and there is none")
