"""Sums by key over the last minute, hour and day, for RocketMQ's tools.

    minute   6 parts of 10 s        hour   6 parts of 10 min        day   24 parts of 1 h

Only complete parts count, so a sum lags by up to one part. A part contains only the keys that changed in it, so ten
thousand idle topics cost nothing. A key may be ``topic@group``; those of one topic can be removed together.

Source: apache/rocketmq common/.../stats/StatsItem.java (samplingInSeconds .. computeStatsData).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

MESSAGES, BYTES = 0, 1
_TIMES = 2

MINUTE, HOUR, DAY = 0, 1, 2
_PARTS = ((10.0, 6), (600.0, 6), (3600.0, 24))  # length of a part in s, parts per window

Cell = list[int]  # messages, bytes, times


class WindowSum(NamedTuple):
    """The sum of one key over one window."""

    sum: int
    tps: float  # rate per second
    per_time: float  # average per call of `SlidingSums.add`


NOTHING = WindowSum(0, 0.0, 0.0)
_NONE: Cell = [0, 0, 0]


class _Window:
    def __init__(self, part_s: float, parts: int) -> None:
        self.part_s = part_s
        self.parts: deque[tuple[float, dict[str, Cell]]] = deque(maxlen=parts)  # start time, sums
        self.open: dict[str, Cell] = {}
        self.began: float | None = None
        self.ended = 0.0  # end of the last complete part


class SlidingSums:
    """Sums of messages and bytes by key."""

    def __init__(self) -> None:
        self._windows = [_Window(*each) for each in _PARTS]
        self._since: dict[str, float] = {}  # key to the start time of its first part
        self._ended: dict[str, Cell] = {}  # sums of all parts that have left the open ones
        self.now: dict[str, Cell] = self._windows[MINUTE].open
        self._keys_of: dict[str, set[str]] = {}  # topic to its topic@group keys

    def add(self, key: str, messages: int, size: int, times: int = 1) -> None:
        """Add to the sums of *key*."""
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
        """Close the parts that are over, including the shorter ones; called every second with the monotonic time, s."""
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
        """Return whether *key* has ever been counted."""
        return key in self._since or key in self.now

    def over(self, key: str, window: int, what: int = MESSAGES) -> WindowSum:
        """Return the sum of MESSAGES or BYTES over MINUTE, HOUR or DAY.

        If *key* is newer than the window, the rate is over the time since its first part.
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
        """Return messages and bytes since the start."""
        cells = [sums.get(key, _NONE) for sums in (self._ended, *(window.open for window in self._windows))]
        messages, size, _ = (sum(each) for each in zip(*cells, strict=True))
        return messages, size

    def forget(self, topic: str) -> None:
        """Remove the key *topic* and all of its topic@group keys."""
        self._drop((topic, *self._keys_of.pop(topic, ())))

    def forget_group(self, group: str) -> None:
        """Remove all topic@group keys of *group*."""
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

    def keys_of(self, topic: str) -> Collection[str]:
        """Return the topic@group keys of *topic*; not a copy."""
        return self._keys_of.get(topic, ())

    def known(self) -> list[str]:
        """Return all keys."""
        return list(dict.fromkeys([*self._since, *self.now]))

    def _close(self, index: int, began: float, now: float) -> None:
        """End a part and add its sums to the open part of the next wider window."""
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
