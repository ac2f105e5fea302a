"""Sums by key over the last minute, hour and day, as RocketMQ's tools ask for them.

    minute   6 parts of 10 s        hour   6 parts of 10 min        day   24 parts of 1 h

Only whole parts count, so a sum is up to one part late. A part holds the keys that changed in it and no others: ten
thousand idle topics cost nothing. A key may be ``topic@group``: those of one topic are forgotten together.

Source of windows and figures: apache/rocketmq common/.../stats/StatsItem.java (samplingInSeconds .. computeStatsData).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

MESSAGES, BYTES = 0, 1
_TIMES = 2

MINUTE, HOUR, DAY = 0, 1, 2
_PARTS = ((10.0, 6), (600.0, 6), (3600.0, 24))  # seconds of a part, parts of a window

Cell = list[int]  # messages, bytes, times


class WindowSum(NamedTuple):
    """One window of one key."""

    sum: int
    tps: float  # a second
    per_time: float  # on average each time something was added


NOTHING = WindowSum(0, 0.0, 0.0)
_NONE: Cell = [0, 0, 0]


class _Window:
    def __init__(self, part_s: float, parts: int) -> None:
        self.part_s = part_s
        self.parts: deque[tuple[float, dict[str, Cell]]] = deque(maxlen=parts)  # begin, sums
        self.open: dict[str, Cell] = {}
        self.began: float | None = None
        self.ended = 0.0  # of the last whole part


class SlidingSums:
    """Counts messages and bytes by key."""

    def __init__(self) -> None:
        self._windows = [_Window(*each) for each in _PARTS]
        self._since: dict[str, float] = {}  # key to the begin of the part it was first seen in
        self._ended: dict[str, Cell] = {}  # sums of all parts that are over, the widest too
        self.now: dict[str, Cell] = self._windows[MINUTE].open
        self._keys_of: dict[str, set[str]] = {}  # topic to its keys, where those name a group too

    def add(self, key: str, messages: int, size: int, times: int = 1) -> None:
        """Count."""
        cell = self.now.get(key)
        if cell is None:
            self.now[key] = [messages, size, times]
            topic, at, _ = key.partition("@")
            if at:
                self._keys_of.setdefault(topic, set()).add(key)
        else:
            cell[0] += messages
            cell[1] += size
            cell[2] += times

    def tick(self, now: float) -> None:
        """Close the parts that are over, and those within them; called every second with the monotonic time, s."""
        over = -1
        for index, window in enumerate(self._windows):
            if window.began is None:
                window.began = now
            elif now - window.began >= window.part_s:
                over = index
        for index, window in enumerate(self._windows[: over + 1]):
            assert window.began is not None
            self._close(index, window.began, now)

    def knows(self, key: str) -> bool:
        """Whether anything was ever counted for *key*."""
        return key in self._since or key in self.now

    def over(self, key: str, window: int, what: int = MESSAGES) -> WindowSum:
        """The sum over MINUTE, HOUR or DAY of MESSAGES or BYTES.

        The rate is over the time since *key* was first seen, where that is shorter than the window.
        """
        spans = self._windows[window]
        if not spans.parts or key not in self._since:
            return NOTHING
        total = times = 0
        for _, sums in spans.parts:
            cell = sums.get(key)
            if cell is not None:
                total += cell[what]
                times += cell[_TIMES]
        seconds = spans.ended - max(spans.parts[0][0], self._since[key])
        return WindowSum(total, total / seconds if seconds > 0 else 0.0, total / times if times else 0.0)

    def total(self, key: str) -> tuple[int, int]:
        """Messages and bytes since the start, up to this moment."""
        cells = [sums.get(key, _NONE) for sums in (self._ended, *(window.open for window in self._windows))]
        messages, size, _ = (sum(each) for each in zip(*cells, strict=True))
        return messages, size

    def forget(self, topic: str) -> None:
        """Drop the key *topic*, and all that name a group of it."""
        self._drop((topic, *self._keys_of.pop(topic, ())))

    def forget_group(self, group: str) -> None:
        """Drop all keys that name *group*."""
        gone = [key for key in self.known() if key.partition("@")[2] == group]
        self._drop(gone)
        for key in gone:
            topic = key.partition("@")[0]
            keys = self._keys_of.get(topic, set())
            keys.discard(key)
            if not keys:
                self._keys_of.pop(topic, None)

    def _drop(self, keys: Iterable[str]) -> None:
        parts = [sums for window in self._windows for _, sums in window.parts]
        for key in keys:
            self._since.pop(key, None)
            for sums in (self._ended, *(window.open for window in self._windows), *parts):
                sums.pop(key, None)

    def known(self) -> list[str]:
        """Every key that something was counted for."""
        return list(dict.fromkeys([*self._since, *self.now]))

    def _close(self, index: int, began: float, now: float) -> None:
        """End a part, whose sums belong to the next wider one from then on: a key is in one open part, or has ended."""
        window = self._windows[index]
        closed = window.open
        window.parts.append((began, closed))
        window.began = window.ended = now
        window.open = {}
        if index == MINUTE:
            self.now = window.open
            for key in closed:
                self._since.setdefault(key, began)
        _merge(self._windows[index + 1].open if index < DAY else self._ended, closed)


def _merge(into: dict[str, Cell], sums: dict[str, Cell]) -> None:
    for key, (messages, size, times) in sums.items():
        cell = into.setdefault(key, [0, 0, 0])
        cell[0] += messages
        cell[1] += size
        cell[2] += times
