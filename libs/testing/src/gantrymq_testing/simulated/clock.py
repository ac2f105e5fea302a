"""The virtual clock, and workers without threads.

Wall time is a start time plus the loop's virtual seconds. Work runs at once, in the caller, and its completion arrives
after a seeded delay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

from gantrymq.world.clock import Clock
from gantrymq.world.workers import Done, resolve_future

T = TypeVar("T")
DELAY_S = (50e-6, 2e-3)  # from a read that hits the page cache to a sync on an average disk


class SimulatedClock:
    """A clock that advances only when the loop is idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int) -> None:
        """Read time from *loop*; its second 0 is *start_ms*, milliseconds since 1970-01-01 UTC."""
        self._loop = loop
        self._start_us = start_ms * 1000

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970-01-01 UTC."""
        return self.now_us() // 1000

    def utc_offset_ms(self, at_ms: int) -> int:
        """Return 0: a simulation uses UTC, whatever the machine's time zone."""
        return 0

    def now_us(self) -> int:
        """Wall time in microseconds; rounding hides the error of sums of floats."""
        return self._start_us + round(self._loop.time() * 1e6)

    def monotonic(self) -> float:
        """Virtual seconds since the run began."""
        return self._loop.time()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` once *delay_s* virtual seconds have passed."""
        return self._loop.call_later(delay_s, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds* of virtual time."""
        await asyncio.sleep(seconds)


class SimulatedWorkers:
    """Completions may overtake each other, as with real threads."""

    def __init__(self, clock: Clock, seeded: random.Random) -> None:
        self._clock = clock
        self._random = seeded
        self._under_way = 0
        self._closed = False
        self._idle: asyncio.Future[None] | None = None

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` now, return (or raise) its result after a delay."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=resolve_future(answer))
        return await answer

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Run ``work(*args)`` now, call ``done(result, error)`` after a delay.

        Only an Exception is passed to *done*; other exceptions (a test that stops the world) propagate to the caller.
        """
        if self._closed:
            raise RuntimeError("the workers are closed")
        result: T | None = None
        failure: Exception | None = None
        try:
            result = work(*args)
        except Exception as error:
            failure = error
        self._under_way += 1
        self._clock.call_later(self._random.uniform(*DELAY_S), self._complete, done, result, failure)

    async def close(self) -> None:
        """Wait until every ``done`` was called, and accept no more work."""
        self._closed = True
        if self._under_way:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _complete(self, done: Done[Any], result: Any, error: Exception | None) -> None:
        try:
            done(result, error)
        finally:
            self._under_way -= 1
            if self._under_way == 0 and self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
