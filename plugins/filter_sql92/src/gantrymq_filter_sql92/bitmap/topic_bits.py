"""The bits of a new message: the bits of each group with a matching expression.

An expression shared by several groups is evaluated once. A group with an expression that cannot be evaluated here gets
its bits in every message, so that a broker able to evaluate it reads them all. A map is left out if computing it would
exceed the share of the event loop: a message without a map is evaluated when it is read.

Source: apache/rocketmq broker/.../filter/CommitLogDispatcherCalcBitMap.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gantrymq_filter_sql92.bitmap.counters import BitMapCounters
from gantrymq_filter_sql92.bitmap.filter_data import FilterData

__all__ = ["EACH_COSTS", "MOST_COST", "EvaluationTime", "Matches", "TopicBits"]

MOST_COST: Final = 100_000  # cost of the expressions of one topic: 4 ms per message
EACH_COSTS: Final = 64  # cost of an expression besides its characters
WINDOW_S: Final = 0.02
SHARE_S: Final = 0.01  # s of each window

Matches = Callable[[bytes], bool]
"""Return whether stored properties match; an expression that fails does not match."""


class EvaluationTime:
    """Limits the event loop's time for maps to `SHARE_S` of each `WINDOW_S`, plus one message."""

    __slots__ = ("_monotonic", "_since", "_spent_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """*monotonic*: clock in seconds."""
        self._monotonic = monotonic
        self._since = monotonic()
        self._spent_s = 0.0

    def begin(self) -> float | None:
        """Return the start time, or None if the budget is used up."""
        now = self._monotonic()
        if now - self._since >= WINDOW_S:
            self._since, self._spent_s = now, 0.0
        return now if self._spent_s < SHARE_S else None

    def end(self, begun: float) -> None:
        """Account for work started at *begun*."""
        self._spent_s += self._monotonic() - begun


class TopicBits:
    """Computes the maps of one topic for its current filters."""

    __slots__ = ("_always", "_asked", "_byte_count", "_cost", "_counts", "_time")

    def __init__(
        self,
        filters: Iterable[FilterData],
        compiled: Callable[[FilterData], Matches | None],
        time: EvaluationTime,
        counts: BitMapCounters,
    ) -> None:
        """*filters*: at least one; *compiled*: return the predicate of a group's expression, None if it has none."""
        self._time = time
        self._counts = counts
        self._always = self._byte_count = 0
        masks: dict[tuple[str, str], int] = {}
        first: dict[tuple[str, str], FilterData] = {}
        for data in filters:
            key = data.type, data.expression
            masks[key] = masks.get(key, 0) | data.mask
            first.setdefault(key, data)
            self._byte_count = data.byte_count
        self._asked: list[tuple[Matches, int]] = []
        self._cost = sum(EACH_COSTS + len(data.expression) for data in first.values())
        for key, data in first.items() if self._cost <= MOST_COST else ():
            matches = compiled(data)
            if matches is None:
                self._always |= masks[key]
            else:
                self._asked.append((matches, masks[key]))

    def __call__(self, properties: bytes) -> bytes:
        """Return the map of a message with these stored *properties*; empty if the time budget is used up."""
        begun = self._time.begin() if self._cost <= MOST_COST else None
        if begun is None:
            self._counts.withheld += 1
            return b""
        bits = self._always
        for matches, mask in self._asked:
            if mask & ~bits and matches(properties):
                bits |= mask
        self._time.end(begun)
        self._counts.made += 1
        return bits.to_bytes(self._byte_count, "little")
