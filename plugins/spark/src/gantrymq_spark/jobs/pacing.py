"""When a message of the past is due, so that those of a replay keep their distances, or a part of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TypeVar

import attrs

from gantrymq.errors import ConfigError
from gantrymq.world import Clock

__all__ = ["Pace", "due_rows", "read_speed"]

T = TypeVar("T")
ROWS_AT_ONCE = 2048
SOON_MS = 5  # what is due within it is sent now


def read_speed(text: str) -> float | None:
    """``1x``, ``10x``, ``0.5x``: that number; None for ``max``.

    Raises:
        ConfigError: something else.
    """
    if text.strip().lower() == "max":
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)x", text.strip().lower(), re.ASCII)
    if found is None or not float(found[1]):
        raise ConfigError(f"--speed: {text!r} is no speed; write 1x for the pace of old, 10x, 0.5x, or max")
    return float(found[1])


@attrs.frozen
class Pace:
    """Times of the past beside times of now."""

    first_ms: int  # store time of the first message
    begin_ms: int  # wall time at which it is sent
    speed: float | None  # None: everything is due at once

    def due_ms(self, stored_ms: int) -> int:
        """Wall time at which a message stored then is sent."""
        if self.speed is None:
            return self.begin_ms
        return self.begin_ms + round(max(0, stored_ms - self.first_ms) / self.speed)


async def due_rows(rows: Iterable[tuple[int, T]], pace: Pace, clock: Clock) -> AsyncIterator[list[T]]:
    """Yield *rows*, each a store time and what is to be sent, in bunches as they become due; in their order."""
    left: Iterator[tuple[int, T]] = iter(rows)
    waiting = next(left, None)
    while waiting is not None:
        wait_ms = pace.due_ms(waiting[0]) - clock.now_ms()
        if wait_ms > 0:
            await clock.sleep(wait_ms / 1000)
        bunch, soon_ms = [waiting[1]], clock.now_ms() + SOON_MS
        waiting = next(left, None)
        while waiting is not None and len(bunch) < ROWS_AT_ONCE and pace.due_ms(waiting[0]) <= soon_ms:
            bunch.append(waiting[1])
            waiting = next(left, None)
        yield bunch
