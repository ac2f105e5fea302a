"""Oneway requests that are still in memory. They have no response, so the connection reports whether they were written.

Each request ends at a position in the connection's byte stream. Requests before the position known to be written are
removed. If the connection is lost, the callbacks of the others are called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["PendingOneways"]


class PendingOneways:
    """Unwritten oneway requests of one connection, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], object] | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: int, dropped: Callable[[], object] | None) -> None:
        """Add a request that ends at position *end*; *dropped* is called if it is lost."""
        self._waiting.append((end, dropped))

    def written(self, position: int) -> None:
        """Remove the requests within the first *position* bytes, which were written."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            waiting.popleft()

    def lost(self) -> int:
        """Call the callbacks of the remaining requests, which are lost, and return their number."""
        waiting, self._waiting = self._waiting, deque()
        for _, dropped in waiting:
            if dropped is not None:
                dropped()
        return len(waiting)
