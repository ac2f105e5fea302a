"""Delivery lateness of delayed messages: in total since the start, and the maximum of the last minute."""

from __future__ import annotations

from collections import deque
from typing import Final

_PART_S: Final = 10.0
_PARTS: Final = 6


class Lateness:
    """Lateness statistics of one kind of delay."""

    def __init__(self) -> None:
        """Create empty statistics."""
        self.messages = 0
        self.late_ms = 0  # all messages together
        self.worst_ms = 0  # since the start
        self._parts: deque[list[float]] = deque(maxlen=_PARTS + 1)  # start and maximum of each 10 s

    def delivered(self, messages: int, late_ms: int, worst_ms: int, monotonic_s: float) -> None:
        """Record *messages* deliveries with a total lateness of *late_ms* and a maximum of *worst_ms*."""
        self.messages += messages
        self.late_ms += late_ms
        self.worst_ms = max(self.worst_ms, worst_ms)
        if not self._parts or monotonic_s - self._parts[-1][0] >= _PART_S:
            self._parts.append([monotonic_s, 0])
        self._parts[-1][1] = max(self._parts[-1][1], worst_ms)

    def worst_lately_ms(self, monotonic_s: float) -> int:
        """Return the maximum lateness of the last 60 to 70 seconds."""
        recent = [worst for began, worst in self._parts if monotonic_s - began < _PART_S * (_PARTS + 1)]
        return int(max(recent, default=0))
