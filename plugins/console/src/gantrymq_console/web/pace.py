"""The time between two refreshes of an open page, which grows with the number of pages and tabs that are open.

So refreshes take about one percent of a core, however many pages are open. Every tab of a page is told to ask again
when the view that it shows becomes too old, so that all of them share the next one. Pages show how old they are.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_S: Final = 5.0
MOST_S: Final = 30.0
_SHARE: Final = 0.004  # of the time, for making the HTML of pages; their data and requests take as long again
_REQUESTS_PER_S: Final = 10.0
_LONGEST_S: Final = 0.02  # that one page may count: more is other load, or a template that was not compiled yet
_MOST: Final = 4096  # requests that are counted


class Pace:
    """Sets the time between two refreshes by those of the last 30 s."""

    def __init__(self) -> None:
        self.period_s = LEAST_S
        self._noted: deque[tuple[float, float, float]] = deque(maxlen=_MOST)

    def note(self, now_s: float, took_s: float, due_s: float) -> None:
        """Count a refresh at the monotonic time *now_s*.

        Args:
            now_s: monotonic time of the refresh.
            took_s: to make its HTML; 0 if it was made before.
            due_s: until the tab asks again. So a tab counts as one, whatever the number of its refreshes.
        """
        self._noted.append((now_s, min(took_s, _LONGEST_S) * due_s, due_s))
        while self._noted[0][0] <= now_s - MOST_S:
            self._noted.popleft()
        took_s = sum(each[1] for each in self._noted) / MOST_S  # of one refresh of all tabs
        tabs = sum(each[2] for each in self._noted) / MOST_S
        self.period_s = min(MOST_S, max(LEAST_S, took_s / _SHARE, tabs / _REQUESTS_PER_S))
