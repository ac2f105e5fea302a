"""The operating system's clock and the running event loop's timers.

The only file of the real world that asks what time it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


class RealClock:
    """Wall time, monotonic time and timers. Timers need a running event loop, the rest does not."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def utc_offset_ms(self, at_ms: int) -> int:
        """What the local time zone is ahead of UTC at *at_ms*."""
        return time.localtime(at_ms / 1000).tm_gmtoff * 1000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` on the running loop in *delay_s* seconds (0 and below: on its next turn)."""
        return asyncio.get_running_loop().call_later(delay_s, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds*."""
        await asyncio.sleep(seconds)
