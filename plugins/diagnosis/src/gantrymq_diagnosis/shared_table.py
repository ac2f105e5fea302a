"""Tables that take long to compute: concurrent requests share a computation, and its result for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import attrs

from gantrymq.plugin.world import Clock, Timer
from gantrymq_diagnosis.operators.requests import stopping

KEPT_S: Final = 10.0  # shortest time that a table is used
LATE_S: Final = 10.0  # additional time that a table is served while the next one is computed
_TIMES_KEPT: Final = 100  # or this multiple of the time to compute it, which is one percent of all time then
_MAX_KEPT_S: Final = 60.0
UNUSED_S: Final = 90.0  # without a request, the memory of the table is released

INTERNAL: Final = {"json": False}  # metadata of fields of a row that are not in the response
_DIGITS: Final = 3  # of rates

Table = TypeVar("Table")


def fields_json(row: attrs.AttrsInstance) -> dict[str, Any]:
    """Return the fields of a row as members of a response, except `INTERNAL` ones."""
    values = attrs.asdict(row, filter=lambda field, _value: field.metadata.get("json", True))
    return {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in values.items()}


class SharedTable(Generic[Table]):
    """One table, computed when it is needed."""

    def __init__(self, clock: Clock, compute: Callable[[], Awaitable[Table]]) -> None:
        self._clock = clock
        self._compute = compute
        self._computing: asyncio.Future[Table] | None = None
        self._last: Table | None = None
        self._until = 0.0  # monotonic time until which the result is used
        self._release: Timer | None = None
        self._closed = False

    async def get(self, *, new: bool = False) -> Table:
        """Return the table, computed at most KEPT_S ago, or at most _MAX_KEPT_S if that takes long.

        While the next one is computed, the last one is returned up to LATE_S longer, unless *new* is true.

        Raises:
            ServiceNotAvailable: the table was closed.
            any exception of the computation.
        """
        if self._closed:
            raise stopping()
        computing = self._computing
        now = self._clock.monotonic()
        if computing is None or (computing.done() and now >= self._until):
            computing = self._computing = asyncio.ensure_future(self._computed())
            computing.add_done_callback(_retrieve)
        if self._last is not None and not new and not computing.done() and now < self._until + LATE_S:
            return self._last
        try:
            return await asyncio.shield(computing)  # other requests wait for it too
        except BaseException as error:
            if not computing.done():  # this request was cancelled
                raise
            if self._computing is computing:
                self._computing = None  # the next request tries again
            if isinstance(error, asyncio.CancelledError) and computing.cancelled():
                raise stopping() from None
            raise

    def expire(self) -> None:
        """Drop the table and a running computation, because of a change: the next request computes it again."""
        self._computing = self._last = None  # those who wait for the computation still get it

    def close(self) -> None:
        """End a computation, and release the table."""
        self._closed = True
        self._forget()

    async def _computed(self) -> Table:
        began = self._clock.monotonic()
        table = await self._compute()
        if self._computing is not asyncio.current_task():  # expired meanwhile
            return table
        now = self._clock.monotonic()
        self._last = table
        self._until = now + min(_MAX_KEPT_S, max(KEPT_S, _TIMES_KEPT * (now - began)))
        if self._release is not None:
            self._release.cancel()
        self._release = self._clock.call_later(UNUSED_S, self._forget)
        return table

    def _forget(self) -> None:
        if self._computing is not None and not self._computing.done():
            self._computing.cancel()
        self._computing = self._last = None
        if self._release is not None:
            self._release.cancel()
            self._release = None


def _retrieve(computing: asyncio.Future[Table]) -> None:
    """Mark an exception as retrieved, because possibly no request waits for it. The next request computes again."""
    if not computing.cancelled():
        computing.exception()
