"""How late delayed messages are delivered: since the start, and at worst in the last minute."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Lateness"]

PART_S: Final = 10.0
_PARTS: Final = 6


class Lateness:
    """Counts the messages of one kind of delay."""

    def __init__(self) -> None:
        """Nothing was delivered yet."""
        self.messages = 0
        self.late_ms = 0  # all messages together
        self.worst_ms = 0  # since the start
        self._parts: deque[list[float]] = deque(maxlen=_PARTS + 1)  # when each part began, and the worst in it

    def delivered(self, messages: int, late_ms: int, worst_ms: int, monotonic_s: float) -> None:
        """Count *messages* that were *late_ms* late together, and *worst_ms* at worst."""
        self.messages += messages
        self.late_ms += late_ms
        self.worst_ms = max(self.worst_ms, worst_ms)
        if not self._parts or monotonic_s - self._parts[-1][0] >= PART_S:
            self._parts.append([monotonic_s, 0])
        self._parts[-1][1] = max(self._parts[-1][1], worst_ms)

    def worst_lately_ms(self, monotonic_s: float) -> int:
        """The worst of the last minute, up to ten seconds more."""
        recent = [worst for began, worst in self._parts if monotonic_s - began < PART_S * (_PARTS + 1)]
        return int(max(recent, default=0))
