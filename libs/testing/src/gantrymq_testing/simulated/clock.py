"""The virtual clock: wall time is a start time plus the loop's virtual seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


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
