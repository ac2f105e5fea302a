"""A clock that stands still until a test advances it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ManualTimer:
    def __init__(self, due: float, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.due, self.callback, self.args, self.cancelled = due, callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Wall and monotonic time start at *now* seconds; due timers run in order when the clock is advanced."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self.stepped_s = 0.0  # seconds that the wall clock was set ahead, or, if negative, back
        self.timers: list[ManualTimer] = []

    def utc_offset_ms(self, at_ms: int) -> int:
        """UTC."""
        return 0

    def now_ms(self) -> int:
        return round((self.now + self.stepped_s) * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> ManualTimer:
        timer = ManualTimer(self.now + delay_s, callback, args)
        self.timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.due <= end]:
            timer = min(due, key=lambda each: each.due)
            self.timers.remove(timer)
            self.now = max(self.now, timer.due)
            if not timer.cancelled:
                timer.callback(*timer.args)
        self.now = end
