"""Offsets of a group's pops of one queue: ranges read, ranges with a stored checkpoint, ranges to deliver again.

    took    a pop read [start, end): the next one continues at end
    stored  its checkpoint is stored: the position may pass it
    failed  it could not be stored: nothing was delivered, so the range is a hole that the next pop reads first

The position, which is committed, is the lowest offset that is neither stored nor skipped. Pure: no time, no I/O.
"""

from __future__ import annotations

from collections import deque


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
        self._takes: deque[PopRange] = deque()
        self._holes: list[tuple[int, int]] = []  # ascending

    @property
    def idle(self) -> bool:
        """Whether this object may be dropped: the committed offset is its complete state."""
        return not (self._takes or self._holes) and self.next == self.committed

    def ahead(self) -> tuple[int, int | None]:
        """Return where the next pop starts, and the limit of its range (None: no limit)."""
        return self._holes[0] if self._holes else (self.next, None)

    def took(self, start: int, end: int) -> PopRange:
        """Record that a pop read the messages of [start, end), starting at the offset from `ahead`."""
        take = PopRange(start, end)
        self._passed(start, end)
        self._takes.append(take)
        return take

    def skipped(self, start: int, end: int) -> None:
        """Record that the range has no messages for this group: `took` and `stored` in one step."""
        self.stored(self.took(start, end))

    def _passed(self, start: int, end: int) -> None:
        at = next((at for at, hole in enumerate(self._holes) if hole[0] == start), None)
        if at is not None:  # not necessarily the first hole: another may have been added while it was read
            _, hole_end = self._holes.pop(at)
            if end < hole_end:
                self._holes.insert(at, (end, hole_end))
        else:
            self.next = max(self.next, end)

    def stored(self, take: PopRange) -> None:
        """Record that the checkpoint of the range is stored."""
        take.done = True
        self._settle()

    def failed(self, take: PopRange) -> None:
        """Record that the messages of the range were not delivered."""
        take.done = True
        if take.end > take.start:
            self._holes.append((take.start, take.end))
            self._holes.sort()
        self._settle()

    def _settle(self) -> None:
        takes = self._takes
        while takes and takes[0].done:
            takes.popleft()

    def position(self) -> int:
        """Return the offset that may be committed: everything before it is stored or skipped."""
        open_takes = [take.start for take in self._takes if not take.done]
        holes = [self._holes[0][0]] if self._holes else []
        return min([self.next, *open_takes, *holes])
