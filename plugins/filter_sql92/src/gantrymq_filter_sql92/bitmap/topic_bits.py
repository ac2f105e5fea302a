"""The bits of a new message: for each group whose expression it matches those of the group.

An expression that several groups have is evaluated once. A group whose expression cannot be evaluated here gets its
bits in every message, so that whoever can evaluate it reads them all. A map is left out where making it would take
more of the event loop than there is for it: a message without a map is evaluated when it is read.

Source: apache/rocketmq broker/.../filter/CommitLogDispatcherCalcBitMap.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gantrymq_filter_sql92.bitmap.counts import Counts
from gantrymq_filter_sql92.bitmap.filter_data import FilterData

__all__ = ["EACH_COSTS", "MOST_COST", "EvaluationTime", "Matches", "TopicBits"]

MOST_COST: Final = 100_000  # of the expressions of one topic: 4 ms a message
EACH_COSTS: Final = 64  # besides its characters
WINDOW_S: Final = 0.02
SHARE_S: Final = 0.01  # of each window

Matches = Callable[[bytes], bool]
"""Whether stored properties match; an expression that fails does not."""


class EvaluationTime:
    """How much of the event loop's time goes into maps: at most `SHARE_S` of each `WINDOW_S`, and one message."""

    __slots__ = ("_monotonic", "_since", "_spent_s")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """*monotonic*: s."""
        self._monotonic = monotonic
        self._since = monotonic()
        self._spent_s = 0.0

    def begin(self) -> float | None:
        """When the work begins, None where it must not."""
        now = self._monotonic()
        if now - self._since >= WINDOW_S:
            self._since, self._spent_s = now, 0.0
        return now if self._spent_s < SHARE_S else None

    def end(self, begun: float) -> None:
        """The work that began then is done."""
        self._spent_s += self._monotonic() - begun


class TopicBits:
    """Makes the maps of one topic, for the filters that it has at one time."""

    __slots__ = ("_always", "_asked", "_byte_count", "_cost", "_counts", "_time")

    def __init__(
        self,
        filters: Iterable[FilterData],
        compiled: Callable[[FilterData], Matches | None],
        time: EvaluationTime,
        counts: Counts,
    ) -> None:
        """*filters*: at least one; *compiled*: what evaluates a group's expression, None where nothing can."""
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
        """The map of a message with these stored *properties*; empty where there was no time for it."""
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
