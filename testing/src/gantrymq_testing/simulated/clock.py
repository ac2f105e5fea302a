"""The virtual clock: wall time is a start plus the loop's made-up seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class SimulatedClock:
    """Time that passes only when the loop has nothing to do."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int) -> None:
        """Take time from *loop*; its second 0 is *start_ms*, milliseconds since 1970-01-01 UTC."""
        self._loop = loop
        self._start_us = start_ms * 1000

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970-01-01 UTC."""
        return self.now_us() // 1000

    def utc_offset_ms(self, at_ms: int) -> int:
        """0: a simulation lives in UTC, whatever the machine's time zone."""
        return 0

    def now_us(self) -> int:
        """Wall time in microseconds; rounding to them hides the error that sums of floats carry."""
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
