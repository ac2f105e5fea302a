"""Oneway requests that are still in our memory: nobody answers them, so the connection says what became of them.

Each has its place in all the bytes that are handed to the socket. What lies before the bytes known to have left is
written, and forgotten here; what lies behind when the connection is lost is dropped, and whoever sent it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["PendingOneways"]


class PendingOneways:
    """Those of one connection, in the order in which they were sent."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], object] | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: int, dropped: Callable[[], object] | None) -> None:
        """Note a request whose last byte is number *end* of all bytes; *dropped* is called if it is not written."""
        self._waiting.append((end, dropped))

    def written(self, position: int) -> None:
        """*position* bytes have left our memory."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            waiting.popleft()

    def lost(self) -> int:
        """Nothing more will be written: tell whoever sent what is left, and return how many that are."""
        waiting, self._waiting = self._waiting, deque()
        for _, dropped in waiting:
            if dropped is not None:
                dropped()
        return len(waiting)
