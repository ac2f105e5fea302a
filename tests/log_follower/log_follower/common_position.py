"""Choice of the position up to which two logs are equal, by checksums of ranges."""

from __future__ import annotations

from gantrymq.interfaces import LogRange
from log_follower.frames import BLOCK_BYTES


class CommonPosition:
    """Steps of the comparison: compare `question`, pass the verdict to `answer`, until `question` is None.

    *agreed* is a start of a record that was on both disks. The block before it is compared first; if it differs, so may
    everything, and the comparison begins at the start of the logs.
    """

    def __init__(self, mine: LogRange, other: LogRange, agreed: int, block: int = BLOCK_BYTES) -> None:
        self.low = max(mine.min_offset, other.min_offset)  # the start of a log file
        self.high = max(min(mine.max_offset, other.max_offset), self.low)
        self.record = agreed if self.low < agreed <= self.high else self.low  # a start of a record
        self.equal = self.record  # equal up to here
        self._differs = self.high + 1  # end of the shortest range from `equal` on that differs
        self._block = block
        self._before = self.record > self.low

    @property
    def question(self) -> tuple[int, int] | None:
        """Start and length of the range to compare, or None at the end."""
        if self._before:
            start = max(self.record - self._block, self.low)
            return start, self.record - start
        if self._differs <= self.high:
            length = (self._differs - self.equal) // 2
            return (self.equal, length) if length else None
        length = min(self.high - self.equal, self._block)
        return (self.equal, length) if length else None

    def answer(self, equal: bool) -> None:
        """Say whether the range of `question` is equal in both logs."""
        assert self.question is not None
        start, length = self.question
        if self._before:
            self._before = False
            if not equal:
                self.record = self.equal = self.low
        elif equal:
            self.equal += length
        else:
            self._differs = start + length


def last_start(record: int, heads: bytes, equal: int) -> int:
    """Return the start of the last record that begins at or before *equal*.

    *heads* are the bytes from *record* on, which is the start of one, at least up to *equal*.
    """
    start, place = record, record
    while place < equal and place + 4 <= record + len(heads):
        start = place
        size = int.from_bytes(heads[place - record : place - record + 4], "big")
        if size <= 0:
            break
        place += size
    return place if place == equal else start
