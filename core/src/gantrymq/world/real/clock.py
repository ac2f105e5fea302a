"""Clock of the operating system and timers of the running event loop.

Other modules must not read the clock directly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


class RealClock:
    """Wall time, monotonic time and timers. Only timers need a running event loop."""

    def now_ms(self) -> int:
        """Return the wall time, milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def utc_offset_ms(self, at_ms: int) -> int:
        """Return the offset of local time from UTC at *at_ms*, milliseconds."""
        return time.localtime(at_ms / 1000).tm_gmtoff * 1000

    def monotonic(self) -> float:
        """Return the monotonic time, seconds."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` on the running loop in *delay_s* s (0 or less: in the next iteration)."""
        return asyncio.get_running_loop().call_later(delay_s, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds*."""
        await asyncio.sleep(seconds)
