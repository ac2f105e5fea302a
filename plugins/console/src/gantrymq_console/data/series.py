"""Numbers of the last hour in memory: one value each 10 s for each series, as 32-bit floats.

When all series together need more than 16 MiB, the one unchanged for longest is dropped.
"""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

__all__ = ["EVERY_S", "KEPT", "MOST_BYTES", "Series"]

EVERY_S: Final = 10
KEPT: Final = 360  # samples: an hour
GAP_MS: Final = 3 * EVERY_S * 1000  # between two samples: sampling paused, and values in between are unknown
MOST_BYTES: Final = 16 * 1024 * 1024
SERIES_BYTES: Final = 4 * KEPT + 400  # with the objects around the numbers, measured with tracemalloc

Key = tuple[str, str, str]
"""Kind of the subject, its name, and the word of the series, such as ("topic", "Orders", "in")."""


class Series:
    """Rings of samples; all have the same times."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = max(1, most_bytes // SERIES_BYTES)
        self._times = array("q", [0]) * KEPT
        self._rings: OrderedDict[Key, array[float]] = OrderedDict()  # the one that moved last is at the end
        self.taken = 0  # samples so far

    def __len__(self) -> int:
        return len(self._rings)

    @property
    def size_bytes(self) -> int:
        """Estimated memory."""
        return len(self._rings) * SERIES_BYTES

    def begin(self, now_ms: int) -> None:
        """Begin the sample of *now_ms*, in which everything is unknown yet.

        After a pause there is an empty sample before it, so that no curve crosses the pause.
        """
        newest_ms = self._times[(self.taken - 1) % KEPT]
        if self.taken and now_ms - newest_ms > GAP_MS:
            self._begin(newest_ms + EVERY_S * 1000)
        self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        place = self.taken % KEPT
        self._times[place] = now_ms
        self.taken += 1
        for ring in self._rings.values():
            ring[place] = math.nan

    def put(self, kind: str, name: str, word: str, value: float | None, *, create: bool = True) -> None:
        """Set a value of this sample.

        Args:
            kind, name, word: the series.
            value: None if it is not known.
            create: false to ignore a series that has no ring yet, because it does not move.
        """
        key = (kind, name, word)
        ring = self._rings.get(key)
        if value is None or (ring is None and not create):
            return
        if ring is None:
            ring = self._rings[key] = array("f", [math.nan]) * KEPT
            if len(self._rings) > self._most:
                self._rings.popitem(last=False)
        elif create:
            self._rings.move_to_end(key)
        ring[(self.taken - 1) % KEPT] = value

    def times(self) -> list[int]:
        """Return the times of all samples of the last hour, wall ms, the oldest first."""
        return [self._times[place] for place in self._places()]

    def values(self, kind: str, name: str, word: str) -> list[float | None] | None:
        """Return the values at these times, None for unknown ones; None without such a series."""
        ring = self._rings.get((kind, name, word))
        if ring is None:
            return None
        return [None if math.isnan(ring[place]) else round(ring[place], 3) for place in self._places()]

    def names(self, kind: str, word: str) -> list[str]:
        """Return the subjects of this kind that have such a series."""
        return [key[1] for key in self._rings if (key[0], key[2]) == (kind, word)]

    def _places(self) -> Iterator[int]:
        first = max(0, self.taken - KEPT)
        begin_ms = self._times[(self.taken - 1) % KEPT] - KEPT * EVERY_S * 1000
        return (number % KEPT for number in range(first, self.taken) if self._times[number % KEPT] > begin_ms)
