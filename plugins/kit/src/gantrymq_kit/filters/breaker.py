"""Circuit breaker: when a filter is suspended, and for how long. Pure: time is an argument.

working --raised, stuck, or SLOW_CALLS slow calls within WINDOW_S--> suspended
suspended --the pause is over--> working, on probation for as long as the pause was: one slow call is enough now,
                                 and the next pause is twice as long, up to MOST_PAUSE_S
"""

from __future__ import annotations

from collections import deque
from typing import Final

SLOW_CALLS: Final = 20  # on a busy machine single calls of any filter are slow
WINDOW_S: Final = 10.0
MOST_PAUSE_S: Final = 600.0


class Breaker:
    """Circuit breaker of one subscription."""

    __slots__ = ("_first_pause_s", "_resumed_at", "_slow", "pause_s", "reason", "until")

    def __init__(self, first_pause_s: float) -> None:
        self._first_pause_s = first_pause_s
        self._slow = deque[float](maxlen=SLOW_CALLS)  # when calls were slow, monotonic s
        self._resumed_at: float | None = None
        self.pause_s = 0.0  # length of the last suspension
        self.until: float | None = None  # monotonic s; None: working
        self.reason = ""

    def suspended(self, now: float) -> bool:
        """Return whether the filter is suspended; ends a suspension that is over."""
        if self.until is None:
            return False
        if now < self.until:
            return True
        self.until, self._resumed_at = None, now
        return False

    def failed(self, now: float, reason: str) -> None:
        """Suspend the filter: a call raised, or was stuck."""
        pause_s = self.pause_s * 2 if self._on_probation(now) else self._first_pause_s
        self.pause_s = min(pause_s, MOST_PAUSE_S)
        self.until, self.reason = now + self.pause_s, reason
        self._slow.clear()

    def slow(self, now: float, reason: str) -> bool:
        """Record a slow call. Return whether it suspended the filter."""
        self._slow.append(now)
        many = len(self._slow) == SLOW_CALLS and now - self._slow[0] <= WINDOW_S
        if many or self._on_probation(now):
            self.failed(now, reason)
            return True
        return False

    def _on_probation(self, now: float) -> bool:
        return self._resumed_at is not None and now - self._resumed_at <= self.pause_s
