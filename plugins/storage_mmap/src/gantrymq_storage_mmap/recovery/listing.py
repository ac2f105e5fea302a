"""Listing the records of one queue again, from the place where the queue was cut.

A message whose record was lost to damage leaves its queue offset behind. Its entry becomes a repetition of the entry
behind it, or, where none is behind it yet, of the one before it. Readers of ours skip an entry that repeats another
(see `selection`); a Java broker delivers that message twice. A pre-blank entry would cost more: having met one, a Java
broker passes over the other entries of the same pull whose records lie in the log's first file.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_pre_blank
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.tails import QueueTails
from gantrymq_storage_mmap.recovery.holes import EntriesMissing, Holes

__all__ = ["MAX_GAP_ENTRIES", "MAX_QUEUE_OFFSET", "Listing", "first_entry_from", "first_in_log"]

MAX_GAP_ENTRIES = 1_000_000  # more than that between two records of a queue is damage in the second
MAX_QUEUE_OFFSET = 2**52  # 20 bytes each, and the position has to be an int64


class Listing:
    """Follows the records of one ordinary queue, in log order."""

    __slots__ = ("_fed", "_holes", "_partial", "_tails", "leaves", "lost", "queue")

    def __init__(self, queue: ConsumeQueue, tails: QueueTails, holes: Holes, start: int, *, partial: bool) -> None:
        """Cut *queue* at its first entry at or behind log offset *start*; *partial*: records before it exist."""
        self.queue = queue
        self.lost = 0  # entries that the log has no record for
        self.leaves = False  # whether an entry stands behind the end that no record belongs to
        self._tails = tails
        self._holes = holes
        self._partial = partial
        self._fed = False
        cut_queue(queue, tails, first_entry_from(queue, start))

    def see(self, entry: DispatchEntry) -> str | None:
        """Take the next record. Returns why it gets no entry, None when it got its own.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        queue, queue_offset = self.queue, entry.queue_offset
        if queue_offset != queue.max_offset:
            problem = self._implausible(entry)
            if problem is not None:
                return problem
            self._jump(entry)
        self._fed = True
        code = entry.tags_code
        if queue.lists_units:
            assert queue.ext is not None
            code = self._append_unit(entry)
        self._append(ENTRY.pack(entry.log_offset, entry.size, code))
        return None

    def finish(self) -> None:
        """The queue ends behind the last record that was shown, or where it was cut.

        Entries behind that for records that were lost stay taken: consumers may have seen those messages.
        """
        queue, end = self.queue, self.queue.max_offset
        if (found := self._existing(end)) is not None:
            last = queue.entry(end - 1) if end > queue.min_offset else None
            while found is not None and (found == last or self._holes.hold(found[0])):
                end += 1
                found = self._existing(end)
        self.leaves = found is not None
        if end > queue.max_offset:
            self.lost += end - queue.max_offset
            before = queue.entries(queue.max_offset - 1, 1) if queue.max_offset > queue.min_offset else b""
            self._append((before or PRE_BLANK) * (end - queue.max_offset))
        queue.next_offset = queue.warm_offset = queue.max_offset
        queue.min_offset = min(queue.min_offset, queue.max_offset)

    def _append(self, packed: bytes) -> None:
        if not self.queue.unwritten:
            self._tails.begin(self.queue)
        self.queue.append(packed)
        self._tails.grown(len(packed))

    def _append_unit(self, entry: DispatchEntry) -> int:
        """Append the ext unit of a record, with the bits that a unit of the same record has there; its address."""
        ext = self.queue.ext
        assert ext is not None
        before = ext.end
        if not ext.unwritten:
            self._tails.begin(ext)
        address = ext.add_again(entry.tags_code, entry.store_timestamp)
        self._tails.grown(ext.end - before)
        return address

    def _implausible(self, entry: DispatchEntry) -> str | None:
        """Why the queue offset of a record cannot be true, or None.

        The log is in the order of each queue, and no check sum covers the number. Where there is a doubt it is
        believed: offsets begin anew when a topic was deleted, and jump where records were lost.
        """
        queue_offset, expected = entry.queue_offset, self.queue.max_offset
        if self._names(expected, entry) and not self._names(queue_offset, entry):
            return f"its queue offset is {queue_offset}, but entry {expected} of its queue names it"
        if not 0 <= queue_offset <= MAX_QUEUE_OFFSET:
            return f"its queue offset is {queue_offset}"
        if self._fed and (queue_offset > expected + MAX_GAP_ENTRIES or 0 < queue_offset < expected):
            return f"its queue offset is {queue_offset}, {expected} follows in its queue"
        return None

    def _jump(self, entry: DispatchEntry) -> None:
        """The record does not follow the one before it: entries are missing, or a deleted topic began anew."""
        queue, queue_offset = self.queue, entry.queue_offset
        gap = queue_offset - queue.max_offset
        if gap > 0 and self._partial and not self._fed:
            for number in range(queue.max_offset, queue_offset):
                found = self._existing(number)
                if found is None or not (self._holes.hold(found[0]) or self._names(number, entry)):
                    raise EntriesMissing
        if gap < 0:
            self._tails.forget(queue)
            queue.cut(queue_offset * ENTRY_BYTES)
            queue.min_offset = min(queue.min_offset, queue_offset)
        elif queue.empty and not queue.tail:
            queue.begin_at(queue_offset)
        else:
            self.lost += gap
            self._append(ENTRY.pack(entry.log_offset, entry.size, entry.tags_code) * gap)

    def _existing(self, queue_offset: int) -> tuple[int, int, int] | None:
        """The entry that the files hold; None where nothing was written."""
        return entry_of(self.queue.look(queue_offset * ENTRY_BYTES, ENTRY_BYTES)) if queue_offset >= 0 else None

    def _names(self, queue_offset: int, entry: DispatchEntry) -> bool:
        """Whether the files have an entry there that names the record."""
        if queue_offset > MAX_QUEUE_OFFSET:
            return False
        found = self._existing(queue_offset)
        return found is not None and found[:2] == (entry.log_offset, entry.size)


def cut_queue(queue: ConsumeQueue, tails: QueueTails, queue_offset: int) -> None:
    """Let *queue* and its ext files end before *queue_offset*."""
    tails.forget(queue)
    ext = queue.ext
    if ext is not None:
        tails.forget(ext)
        before = queue.entry(queue_offset - 1) if queue_offset > queue.min_offset else None
        if before is None or is_pre_blank(*before[:2]):
            ext.cut(next(iter(ext.starts()), 0))
        else:
            ext.cut(ext.end_behind(before[2]))
    queue.cut(queue_offset * ENTRY_BYTES)


def first_entry_from(queue: ConsumeQueue, log_offset: int) -> int:
    """Queue offset of the first entry at or behind *log_offset*, the queue's end when there is none.

    Pre-blank entries count as lying before everything, what was never written as lying behind. It is looked for from
    the end on, in steps that double: mostly it is close.
    """
    low, high, step = queue.min_offset, queue.max_offset, 1
    if low >= high or _before(queue, high - 1, log_offset):
        return high
    high -= 1
    while low < high:
        probe = max(high - step, low)
        if _before(queue, probe, log_offset):
            low = probe + 1
            break
        high, step = probe, 2 * step
    return _first_not(lambda queue_offset: _before(queue, queue_offset, log_offset), low, high)


def first_in_log(queue: ConsumeQueue, log_min: int) -> int:
    """The same for *log_min*, where the log begins: looked for from the minimum on, which is mostly right.

    Here what was never written lies before: its file was deleted.
    """

    def gone(queue_offset: int) -> bool:
        entry = queue.entry(queue_offset)
        return entry is None or entry[0] < log_min or is_pre_blank(entry[0], entry[1])

    low, high = queue.min_offset, queue.max_offset
    return low if low >= high or not gone(low) else _first_not(gone, low + 1, high)


def _first_not(before: Callable[[int], bool], low: int, high: int) -> int:
    """The first number of ``[low, high)`` that is not *before*, as none behind it is; *high* when all are."""
    while low < high:
        middle = (low + high) // 2
        if before(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _before(queue: ConsumeQueue, queue_offset: int, log_offset: int) -> bool:
    entry = entry_of(queue.look(queue_offset * ENTRY_BYTES, ENTRY_BYTES))
    return entry is not None and (entry[0] < log_offset or is_pre_blank(entry[0], entry[1]))
