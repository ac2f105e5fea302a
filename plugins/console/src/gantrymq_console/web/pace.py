"""The time between two refreshes of an open page, which grows with the number of pages and tabs that are open.

So refreshes take about one percent of a core, however many pages are open, and about as much at brokers. Every tab of
a page is told to ask again when the view that it shows becomes too old, so that all of them share the next one. Pages
show how old they are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LEAST_S: Final = 5.0
MOST_S: Final = 60.0
_SHARE: Final = 0.005  # of the time, for refreshes; the HTTP server and connections take as long again
_REQUESTS_PER_S: Final = 10.0
_LONGEST_S: Final = 0.05  # that one refresh may count: more is other work, or a template that was not compiled yet
_MOST: Final = 8192  # refreshes that are counted


class Pace:
    """Sets the time between two refreshes by those of the last minute."""

    def __init__(self, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """*cpu_s*: returns the CPU time of the calling thread, which is that of the event loop, in seconds."""
        self.period_s = LEAST_S
        self._cpu_s = cpu_s
        self._counted_s = 0.0  # CPU time that was counted before, while refreshes are under way
        self._under_way = 0
        self._noted: deque[tuple[float, float, float]] = deque()
        self._took_s = self._tabs = 0.0  # sums of what is noted

    def note(self, now_s: float, due_s: float) -> None:
        """Count a refresh.

        Args:
            now_s: monotonic time of the refresh.
            due_s: seconds until the tab asks again. So a tab counts as one, whatever the number of its refreshes.
        """
        self._add(now_s, 0.0, due_s)

    @contextmanager
    def working(self, monotonic: Callable[[], float]) -> Iterator[None]:
        """Count the CPU time of the loop while a refresh is under way; of several at the same time, once.

        Time alone would count brokers that are slow or far away.
        """
        if not self._under_way:
            self._counted_s = self._cpu_s()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            until_s = self._cpu_s()
            took_s = min(until_s - self._counted_s, _LONGEST_S)
            self._counted_s = until_s
            self._add(monotonic(), took_s * self.period_s, 0.0)

    def at(self, now_s: float) -> float:
        """Return the time between two refreshes at the monotonic time *now_s*."""
        if self._noted and self._noted[0][0] <= now_s - MOST_S:
            self._set_period(now_s)
        return self.period_s

    def _add(self, now_s: float, took_s: float, due_s: float) -> None:
        self._noted.append((now_s, took_s, due_s))
        self._took_s += took_s
        self._tabs += due_s
        self._set_period(now_s)

    def _set_period(self, now_s: float) -> None:
        while self._noted and (self._noted[0][0] <= now_s - MOST_S or len(self._noted) > _MOST):
            _, old_took_s, old_due_s = self._noted.popleft()
            self._took_s -= old_took_s
            self._tabs -= old_due_s
        # Sums of the window, divided by its length: seconds and tabs of one refresh of all tabs.
        took_s, tabs = self._took_s / MOST_S, self._tabs / MOST_S
        self.period_s = min(MOST_S, max(LEAST_S, took_s / _SHARE, tabs / _REQUESTS_PER_S))
