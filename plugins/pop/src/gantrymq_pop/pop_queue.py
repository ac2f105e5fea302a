"""Where a group's pops of one queue stand: what was taken, what of it is on record, what has to be given out again.

    took    a pop read [start, end): the next one reads on at end
    stored  its checkpoint is stored: the position may move over it
    failed  it could not be stored: nobody got these messages, so the range is a hole that the next pop reads first

The position, which is committed, is the lowest offset that is neither stored nor passed over. Pure: no time, no I/O.
"""

from __future__ import annotations

from collections import deque

__all__ = ["PopQueue", "PopRange"]


class PopRange:
    """One pop's part of a queue."""

    __slots__ = ("done", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end  # where the next pop reads on
        self.done = False


class PopQueue:
    """The offsets of one group and queue."""

    def __init__(self, start: int) -> None:
        """*start*: the committed offset."""
        self.next = start  # where the next pop reads, but for holes
        self.committed = start  # what was committed last
        self._takes: deque[PopRange] = deque()
        self._holes: list[tuple[int, int]] = []  # ascending

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost by forgetting it: the committed offset says all."""
        return not (self._takes or self._holes) and self.next == self.committed

    def ahead(self) -> tuple[int, int | None]:
        """Where a pop reads, and where its part ends at the latest; None: nowhere."""
        return self._holes[0] if self._holes else (self.next, None)

    def took(self, start: int, end: int) -> PopRange:
        """A pop read messages of [start, end), beginning where `ahead` said."""
        take = PopRange(start, end)
        self._passed(start, end)
        self._takes.append(take)
        return take

    def skipped(self, start: int, end: int) -> None:
        """Nothing between is for this group; as `took` and `stored` at once."""
        self.stored(self.took(start, end))

    def _passed(self, start: int, end: int) -> None:
        at = next((at for at, hole in enumerate(self._holes) if hole[0] == start), None)
        if at is not None:  # another hole may have come in front of it while it was read
            _, hole_end = self._holes.pop(at)
            if end < hole_end:
                self._holes.insert(at, (end, hole_end))
        else:
            self.next = max(self.next, end)

    def stored(self, take: PopRange) -> None:
        """Its checkpoint is on record."""
        take.done = True
        self._settle()

    def failed(self, take: PopRange) -> None:
        """Its messages were given to nobody."""
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
        """What may be committed: everything before it is on record or nobody's."""
        open_takes = [take.start for take in self._takes if not take.done]
        holes = [self._holes[0][0]] if self._holes else []
        return min([self.next, *open_takes, *holes])
