"""The schedule of a replay: intervals of the original store times, divided by the speed."""

from __future__ import annotations

import re

from gantrymq.errors import ConfigError

__all__ = ["Pace", "read_speed"]

MAX = "max"


def read_speed(text: str) -> float | None:
    """Parse ``1x``, ``10x``, ``0.5x``; return the factor, None for ``max``.

    Raises:
        ConfigError: *text* is malformed, or not between 0.001x and 100000x.
    """
    word = text.strip().lower()
    if word == MAX:
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)x", word, re.ASCII)
    if found is None or not 0.001 <= float(found[1]) <= 100_000:
        raise ConfigError(f"{text!r} is not a speed; write 1x, 10x, another number from 0.001x to 100000x, or max")
    return float(found[1])


class Pace:
    """The schedule of one replay; starts with the first message passed to it."""

    def __init__(self, speed: float) -> None:
        """*speed*: above 0."""
        self._speed = speed
        self._begun: tuple[int, float] | None = None

    def due_s(self, stored_ms: int, now_s: float) -> float:
        """Return when to send a message, on the clock of *now_s*; in the past for a late message, to be sent at once.

        Args:
            stored_ms: its store time, ms since 1970; not before that of the first message.
            now_s: seconds of a monotonic clock.
        """
        if self._begun is None:
            self._begun = stored_ms, now_s
        first_ms, begun_s = self._begun
        return begun_s + (stored_ms - first_ms) / 1000 / self._speed
