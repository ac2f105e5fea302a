"""Offsets of a group's pops of one queue: ranges read, ranges with a stored checkpoint, ranges to deliver again.

    took    a pop read [start, end): the next one continues at end
    stored  its checkpoint is stored: the position may pass it
    failed  it could not be stored: nothing was delivered, so the range is a hole that the next pop reads first

On an acting master, whose checkpoints are in memory (`acting`), a range is stored when it is acknowledged, and messages
that are not are holes again.

The position, which is committed, is the lowest offset that is neither stored nor skipped. Pure: no time, no I/O.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

_COUNTED: Final = 10_000  # messages of a queue


class PopRange:
    """The range of a queue that one pop read."""

    __slots__ = ("done", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end  # where the next pop continues
        self.done = False


class PopQueue:
    """Pop offsets of one group and queue."""

    def __init__(self, start: int) -> None:
        """*start*: the committed offset."""
        self.next = start  # where the next pop reads if there are no holes
        self.committed = start  # last committed offset
        self.behind = 0  # number of offsets in holes
        self._open = 0  # number of ranges that are not done
        self._takes: list[tuple[int, int, PopRange]] = []  # a heap, by start; only those that hold back the position
        self._count = 0
        self._holes: list[tuple[int, int]] = []  # ascending
        self.times: dict[int, int] = {}  # how often messages were given back, by offset; the newest ones

    @property
    def idle(self) -> bool:
        """Whether this object may be dropped: the committed offset is its complete state."""
        return not (self._open or self._holes) and self.next == self.committed

    def ahead(self) -> tuple[int, int | None]:
        """Return where the next pop starts, and the limit of its range (None: no limit)."""
        return self._holes[0] if self._holes else (self.next, None)

    def took(self, start: int, end: int) -> PopRange:
        """Record that a pop read the messages of [start, end), starting at the offset from `ahead`."""
        self._passed(start, end)
        return self.hold(start, end)

    def hold(self, start: int, end: int) -> PopRange:
        """Return a range for messages that were read before, which holds back the position until it is stored."""
        take = PopRange(start, end)
        self._open += 1
        if start >= self.committed:
            self._count += 1  # ranges with equal starts are not compared
            heapq.heappush(self._takes, (start, self._count, take))
        return take

    def skipped(self, start: int, end: int) -> None:
        """Record that the range has no messages for this group: `took` and `stored` in one step."""
        self.stored(self.took(start, end))

    def _passed(self, start: int, end: int) -> None:
        at = bisect_left(self._holes, (start,))
        if at < len(self._holes) and self._holes[at][0] == start:
            # Not necessarily the first hole: another may have been added while it was read.
            _, hole_end = self._holes.pop(at)
            self.behind -= min(end, hole_end) - start
            if end < hole_end:
                self._holes.insert(at, (end, hole_end))
        else:
            self.next = max(self.next, end)

    def stored(self, take: PopRange) -> None:
        """Record that the checkpoint of the range is stored."""
        take.done = True
        self._open -= 1
        while self._takes and self._takes[0][2].done:
            heapq.heappop(self._takes)

    def failed(self, take: PopRange) -> None:
        """Record that the messages of the range were not delivered."""
        self._read_again([(take.start, take.end)] if take.end > take.start else [])
        self.stored(take)

    def give_back(self, offsets: Sequence[int], take: PopRange | None) -> None:
        """Let messages be read again; *offsets* ascend, *take*: the range that holds them."""
        ranges: list[tuple[int, int]] = []
        for offset in offsets:
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = ranges[-1][0], offset + 1
            else:
                ranges.append((offset, offset + 1))
            self.times[offset] = self.times.pop(offset, 0) + 1
            if len(self.times) > _COUNTED:
                del self.times[next(iter(self.times))]
        self._read_again(ranges)
        if take is not None:
            self.stored(take)

    def _read_again(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._holes += ranges
        self._holes.sort()
        self.behind += sum(end - start for start, end in ranges)

    def position(self) -> int:
        """Return the offset that may be committed: everything before it is stored or skipped.

        What is before the committed offset was passed by a master, and holds back nothing.
        """
        at = bisect_left(self._holes, (self.committed,))
        holes = self._holes[at : at + 1]
        return min([self.next, *(take[0] for take in self._takes[:1]), *(hole[0] for hole in holes)])
