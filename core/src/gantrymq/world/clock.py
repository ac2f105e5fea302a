"""Time and timers.

Wall time is in milliseconds since the epoch, as RocketMQ stores it; spans are measured on the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; harmless once it has run."""


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970-01-01 UTC."""

    def utc_offset_ms(self, at_ms: int) -> int:
        """What the local time of this host is ahead of UTC at wall time *at_ms*, milliseconds."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; the zero point means nothing."""

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call ``callback(*args)`` on the event loop once *delay_s* seconds have passed."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds*."""


def monotonic_ms(clock: Clock) -> int:
    """`Clock.monotonic` in whole milliseconds: what ages are measured on, as wall time may step."""
    return int(clock.monotonic() * 1000)
