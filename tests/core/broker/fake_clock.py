"""A manual clock: advancing it runs due timers in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FakeTimer:
    def __init__(self, at: float, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.at, self.callback, self.args, self.cancelled = at, callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0  # seconds
        self._due: list[FakeTimer] = []

    def utc_offset_ms(self, at_ms: int) -> int:
        """UTC."""
        return 0

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> FakeTimer:
        timer = FakeTimer(self.now + delay_s, callback, args)
        self._due.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        end = self.now + seconds
        while due := [timer for timer in self._due if timer.at <= end]:
            timer = min(due, key=lambda each: each.at)
            self._due.remove(timer)
            self.now = max(self.now, timer.at)
            if not timer.cancelled:
                timer.callback(*timer.args)
        self.now = end
