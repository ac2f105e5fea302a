"""Bringing one queue in line with the log: entries that are right stay untouched, missing or wrong ones are written.

Recovery feeds it the records of the queue in log order. An entry is right when it names the record's place and size,
and when the ext unit that it names, if it names one, is the record's; its tags code is left alone then. Entries that
are written get units in the ext files where the store keeps those: the unit that stands there already, with its bits,
when it is the record's.

A message whose record was lost to damage leaves its queue offset behind. Its entry becomes a repetition of the entry
behind it, or, where none is behind it yet, of the one before it. Readers of ours skip an entry that repeats another
(see `selection`); a Java broker delivers that message twice. A pre-blank entry would cost more: having met one, a Java
broker passes over the other entries of the same pull whose records lie in the log's first file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_ext_address, is_pre_blank
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code_of
from gantrymq_storage_mmap.log.scan import Hole
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.recovery.ext_rebuild import ExtRebuild

__all__ = ["EntriesMissing", "QueueRebuild", "first_entry_from"]

READ_ENTRIES = 512
WRITE_ENTRIES = 4096
MAX_GAP_ENTRIES = 1_000_000  # more than that between two records of a queue is damage in the second
MAX_QUEUE_OFFSET = 2**52  # 20 bytes each, and the position has to be an int64


class EntriesMissing(Exception):
    """The scanned part of the log shows that a queue lacks entries of the part before it. Recovery handles it."""


class QueueRebuild:
    """Follows the records of one queue. `finish` writes what is left and sets the queue's offsets."""

    __slots__ = (
        "_block",
        "_block_at",
        "_fed",
        "_holes",
        "_new",
        "_new_at",
        "_partial",
        "_units",
        "lost",
        "next",
        "queue",
        "rebuilt",
    )

    def __init__(
        self, queue: ConsumeQueue, log_start: int, *, partial: bool = False, holes: Sequence[Hole] = ()
    ) -> None:
        """Records before log offset *log_start* are not fed; their entries are taken as they are.

        Args:
            queue: what is brought in line.
            log_start: where the fed part of the log begins.
            partial: records before it exist, so a gap before the first fed record may be filled from them.
            holes: damaged places of the fed part, in log order; grows while records are fed.
        """
        self.queue = queue
        self.next = first_entry_from(queue, log_start)
        self.lost = 0  # entries that the log has no record for
        self.rebuilt = 0
        self._partial = partial
        self._holes = holes
        self._fed = False
        self._block = b""
        self._block_at = -1
        self._new: list[bytes] = []
        self._new_at = 0
        self._units = ExtRebuild(queue.ext, self._code_before(self.next)) if queue.ext is not None else None

    def see(self, record: RecordView, delay_levels_ms: tuple[int, ...]) -> str | None:
        """Take the next record of the queue. Returns why it gets no entry, None when it got its own.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        return self.see_at(record.queue_offset, record, delay_levels_ms)

    def see_at(self, queue_offset: int, record: RecordView, delay_levels_ms: tuple[int, ...]) -> str | None:
        """Take the next record of the queue, which lists it at *queue_offset*; as `see`."""
        if queue_offset != self.next:
            problem = self._implausible(queue_offset, record)
            if problem is not None:
                return problem
            self._jump(queue_offset, record, delay_levels_ms)
        self._fed = True
        self.next = queue_offset + 1
        code = self._code_to_write(queue_offset, record, delay_levels_ms)
        if code is not None:
            if not self._new:
                self._new_at = queue_offset
            self._new.append(ENTRY.pack(record.log_offset, record.total_size, code))
            self.rebuilt += 1
            if len(self._new) >= WRITE_ENTRIES:
                self._write()
        elif self._new:
            self._write()
        return None

    def finish(self) -> None:
        """Write what is left; the queue ends behind the last record that was fed, or where it ended before them.

        Entries behind that for records that were lost stay taken: consumers may have seen those messages.
        """
        self._write()
        if self._units is not None:
            self._units.finish()
        queue, end = self.queue, self.next
        last = queue.entry(end - 1) if end > queue.min_offset else None
        while self._in_hole(end) or (last is not None and queue.entry(end) == last):
            end += 1
        if end > self.next:
            before = queue.read(self.next - 1, 1) if self.next > queue.min_offset else b""
            queue.write(self.next, (before or PRE_BLANK) * (end - self.next))
            self.lost += end - self.next
            self.next = end
        queue.max_offset = queue.next_offset = queue.warm_offset = self.next
        queue.min_offset = min(queue.min_offset, self.next)

    def _code_to_write(self, queue_offset: int, record: RecordView, delay_levels_ms: tuple[int, ...]) -> int | None:
        """The tags code, or the address of a unit, of an entry that is missing or wrong; None for one that is right."""
        log_offset, size, stored = self._entry_at(queue_offset)
        right = (log_offset, size) == (record.log_offset, record.total_size)
        if right and not is_ext_address(stored):
            return None
        code = tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms)
        units = self._units
        if units is None:
            return code
        if right:
            return None if units.follow(stored, code, record.store_timestamp) else code
        return units.code_of(code, record.store_timestamp)

    def _implausible(self, queue_offset: int, record: RecordView) -> str | None:
        """Why the queue offset of *record* cannot be true, or None.

        The log is in the order of each queue, and no check sum covers the number. Where there is a doubt it is
        believed: offsets begin anew when a topic was deleted, and jump where records were lost.
        """
        expected = self.next
        place = record.log_offset, record.total_size
        if not self.queue.empty and self._existing(expected) == place != self._existing(queue_offset):
            return f"its queue offset is {queue_offset}, but entry {expected} of its queue names it"
        if not 0 <= queue_offset <= MAX_QUEUE_OFFSET:
            return f"its queue offset is {queue_offset}"
        if self._fed and (queue_offset > expected + MAX_GAP_ENTRIES or 0 < queue_offset < expected):
            return f"its queue offset is {queue_offset}, {expected} follows in its queue"
        return None

    def _jump(self, queue_offset: int, record: RecordView, delay_levels_ms: tuple[int, ...]) -> None:
        """The record does not follow the one before it: entries are missing, or a deleted topic began anew."""
        queue = self.queue
        gap = queue_offset - self.next
        if gap > 0 and self._partial and not self._fed:
            place = record.log_offset, record.total_size
            if not all(self._in_hole(n) or self._existing(n) == place for n in range(self.next, queue_offset)):
                raise EntriesMissing
        self._write()
        if gap < 0:
            queue.min_offset = min(queue.min_offset, queue_offset)
        elif not queue.empty:
            self.lost += gap
            # With its own entry in the same write: alone, a repeated one says that the record's offset is wrong.
            own = 1 if self._units is None else 0
            queue.write(self.next, _entry(record, delay_levels_ms) * (gap + own))
        self._block_at = -1

    def _in_hole(self, queue_offset: int) -> bool:
        """Whether the entry at *queue_offset* names a record that was lost."""
        if not self._holes or self.queue.empty:
            return False
        log_offset, size = self._existing(queue_offset)
        index = bisect_right(self._holes, log_offset, key=_hole_start) - 1
        return size > 0 and index >= 0 and log_offset < self._holes[index].end

    def _code_before(self, queue_offset: int) -> int | None:
        """The tags code, or address, of the entry before *queue_offset*; None when there is none."""
        entry = self.queue.entry(queue_offset - 1) if queue_offset > self.queue.min_offset else None
        return None if entry is None or is_pre_blank(entry[0], entry[1]) else entry[2]

    def _existing(self, queue_offset: int) -> tuple[int, int]:
        """Log offset and size in the entry that stands there."""
        return self._entry_at(queue_offset)[:2]

    def _entry_at(self, queue_offset: int) -> tuple[int, int, int]:
        index = queue_offset - self._block_at
        if self._block_at < 0 or not 0 <= index * ENTRY_BYTES < len(self._block):
            self._block = b"" if self.queue.empty else self.queue.read(queue_offset, READ_ENTRIES)
            self._block_at = queue_offset
            index = 0
            if len(self._block) < ENTRY_BYTES:
                self._block = bytes(ENTRY_BYTES * READ_ENTRIES)
        log_offset, size, code = ENTRY.unpack_from(self._block, index * ENTRY_BYTES)
        return log_offset, size, code

    def _write(self) -> None:
        if self._new:
            if self._units is not None:
                self._units.write()
            self.queue.write(self._new_at, b"".join(self._new))
            self._new = []


def _entry(record: RecordView, delay_levels_ms: tuple[int, ...]) -> bytes:
    code = tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms)
    return ENTRY.pack(record.log_offset, record.total_size, code)


def _hole_start(hole: Hole) -> int:
    return hole.start


def first_entry_from(queue: ConsumeQueue, log_offset: int) -> int:
    """Queue offset of the first entry at or behind *log_offset*, the queue's end when there is none.

    Pre-blank entries count as lying before everything. The two ends are looked at first, since they are the answer for
    nearly every queue; otherwise by bisection.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high or _before(queue, high - 1, log_offset):
        return high
    if not _before(queue, low, log_offset):
        return low
    while low < high:
        middle = (low + high) // 2
        if _before(queue, middle, log_offset):
            low = middle + 1
        else:
            high = middle
    return low


def _before(queue: ConsumeQueue, queue_offset: int, log_offset: int) -> bool:
    entry = queue.entry(queue_offset)
    return entry is not None and (entry[0] < log_offset or is_pre_blank(entry[0], entry[1]))
