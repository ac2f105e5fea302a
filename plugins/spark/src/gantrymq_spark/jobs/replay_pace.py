"""When a message is sent again: as long after the first one as it was stored after that, divided by the speed."""

from __future__ import annotations

import re

from gantrymq.errors import ConfigError

__all__ = ["Pace", "read_speed"]

MAX = "max"


def read_speed(text: str) -> float | None:
    """``1x``, ``10x``, ``0.5x``: how many times as fast; None for ``max``.

    Raises:
        ConfigError: something else, or not between 0.001x and 100000x.
    """
    word = text.strip().lower()
    if word == MAX:
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)x", word, re.ASCII)
    if found is None or not 0.001 <= float(found[1]) <= 100_000:
        raise ConfigError(f"speed {text!r} is none; write 1x, 10x, another number from 0.001x to 100000x, or max")
    return float(found[1])


class Pace:
    """The timetable of one replay; it begins with the first message asked about."""

    def __init__(self, speed: float) -> None:
        """*speed*: above 0."""
        self._speed = speed
        self._begun: tuple[int, float] | None = None

    def due_s(self, stored_ms: int, now_s: float) -> float:
        """When to send a message, on the clock of *now_s*; in the past for one that is late, and then at once.

        Args:
            stored_ms: when it was stored, ms since 1970; not before that of the first message.
            now_s: seconds of a clock that only goes forward.
        """
        if self._begun is None:
            self._begun = stored_ms, now_s
        first_ms, begun_s = self._begun
        return begun_s + (stored_ms - first_ms) / 1000 / self._speed
