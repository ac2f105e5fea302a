"""The time between two refreshes of an open page, which grows with the number of pages and tabs that are open.

So refreshes take about one percent of a core here and less than three at brokers, however many pages are open. Every
tab of a page is told to ask again when the view that it shows becomes too old, so that all of them share the next one.
Pages show how old they are.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_S: Final = 5.0
MOST_S: Final = 60.0
_SHARE: Final = 0.025  # of the time, for views and their HTML; about two thirds of it pass at brokers
_REQUESTS_PER_S: Final = 10.0
_LONGEST_S: Final = 0.02  # that the HTML of one page may count: more is other load, or a template that is not compiled
_LONGEST_VIEW_S: Final = 0.1  # as above; a broker that does not answer takes no time of anybody
_MOST: Final = 8192  # refreshes that are counted


class Pace:
    """Sets the time between two refreshes by those of the last minute."""

    def __init__(self) -> None:
        self.period_s = LEAST_S
        self._noted: deque[tuple[float, float, float]] = deque()
        self._took_s = self._tabs = 0.0  # sums of what is noted

    def note(self, now_s: float, took_s: float, due_s: float) -> None:
        """Count a refresh at the monotonic time *now_s*.

        Args:
            now_s: monotonic time of the refresh.
            took_s: to make its HTML; 0 if it was made before.
            due_s: until the tab asks again. So a tab counts as one, whatever the number of its refreshes.
        """
        self._add(now_s, min(took_s, _LONGEST_S) * due_s, due_s)

    def note_view(self, now_s: float, took_s: float) -> None:
        """Count a view that all tabs of a page share, made in *took_s* seconds, requests to brokers included."""
        self._add(now_s, min(took_s, _LONGEST_VIEW_S) * self.period_s, 0.0)

    def _add(self, now_s: float, took_s: float, due_s: float) -> None:
        self._noted.append((now_s, took_s, due_s))
        self._took_s += took_s
        self._tabs += due_s
        while self._noted[0][0] <= now_s - MOST_S or len(self._noted) > _MOST:
            _, old_took_s, old_due_s = self._noted.popleft()
            self._took_s -= old_took_s
            self._tabs -= old_due_s
        # Sums of the window, divided by its length: seconds and tabs of one refresh of all tabs.
        took_s, tabs = self._took_s / MOST_S, self._tabs / MOST_S
        self.period_s = min(MOST_S, max(LEAST_S, took_s / _SHARE, tabs / _REQUESTS_PER_S))
