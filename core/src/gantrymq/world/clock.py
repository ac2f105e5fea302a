"""Time and timers, and long-running work on the event loop in short slices.

Wall time is in milliseconds since the epoch, as RocketMQ stores it; durations are measured with the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from asyncio import Event


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; does nothing after it has run."""


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """Return the wall time, milliseconds since 1970-01-01 UTC."""

    def utc_offset_ms(self, at_ms: int) -> int:
        """Return the offset of local time from UTC at wall time *at_ms*, milliseconds."""

    def monotonic(self) -> float:
        """Return the time of a clock that never goes backwards, seconds; its zero point is undefined."""

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call ``callback(*args)`` on the event loop after *delay_s* seconds."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds*."""


async def wait_set(clock: Clock, event: Event, seconds: float) -> None:
    """Wait until *event* is set, or set it after *seconds*."""
    timer = clock.call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


def monotonic_ms(clock: Clock) -> int:
    """Return `Clock.monotonic` in whole milliseconds, for ages, as wall time may jump."""
    return int(clock.monotonic() * 1000)


MAX_SLICE_S: Final = 0.003  # without yielding; a single item may take longer


class TimeSlices:
    """Yields to the event loop after a number of items or after `MAX_SLICE_S`.

    Time alone is not sufficient: an item may take a thousand times longer when it waits for a lock or a disk, and in a
    simulated world items take no time.
    """

    def __init__(self, clock: Clock, items: int) -> None:
        """*items*: largest number of items per slice."""
        self._clock = clock
        self._items = self._left = items
        self._until = clock.monotonic() + MAX_SLICE_S

    async def item_done(self, items: int = 1) -> None:
        """Count an item, or *items* that took little time together, as done; yield to the event loop if the slice is
        over."""
        self._left -= items
        if self._left <= 0 or self._clock.monotonic() > self._until:
            await self._clock.sleep(0)
            self._left = self._items
            self._until = self._clock.monotonic() + MAX_SLICE_S
