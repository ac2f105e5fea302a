"""Bringing one queue in line with the log: entries that are right stay untouched, missing or wrong ones are written.

Recovery feeds it the records of the queue in log order. An entry is right when it names the record's place and size;
its tags code is left alone then (it may be the address of an ext unit).
"""

from __future__ import annotations

from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_pre_blank
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code_of
from gantrymq_storage_mmap.consume_queue import ConsumeQueue

__all__ = ["EntriesMissing", "QueueRebuild", "first_entry_from"]

READ_ENTRIES = 512
WRITE_ENTRIES = 4096


class EntriesMissing(Exception):
    """The scanned part of the log shows that a queue lacks entries of the part before it. Recovery handles it."""


class QueueRebuild:
    """Follows the records of one queue. `finish` writes what is left and sets the queue's offsets."""

    __slots__ = ("_block", "_block_at", "_new", "_new_at", "_partial", "lost", "next", "queue", "rebuilt")

    def __init__(self, queue: ConsumeQueue, log_start: int, *, partial: bool = False) -> None:
        """Records before log offset *log_start* are not fed; their entries are taken as they are.

        *partial*: such records exist, so a gap before the first fed record may be filled from them.
        """
        self.queue = queue
        self.next = first_entry_from(queue, log_start)
        self.lost = 0  # entries between others that the log has no record for
        self.rebuilt = 0
        self._partial = partial
        self._block = b""
        self._block_at = -1
        self._new: list[bytes] = []
        self._new_at = 0

    def see(self, record: RecordView, delay_levels_ms: tuple[int, ...]) -> None:
        """Take the next record of the queue.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        queue_offset = record.queue_offset
        if queue_offset != self.next:
            self._jump(queue_offset)
        self.next = queue_offset + 1
        if self._existing(queue_offset) != (record.log_offset, record.total_size):
            code = tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms)
            if not self._new:
                self._new_at = queue_offset
            self._new.append(ENTRY.pack(record.log_offset, record.total_size, code))
            self.rebuilt += 1
            if len(self._new) >= WRITE_ENTRIES:
                self._write()
        elif self._new:
            self._write()

    def finish(self) -> None:
        """Write what is left; the queue ends behind the last record that was fed, or where it ended before them."""
        self._write()
        queue = self.queue
        queue.max_offset = queue.next_offset = queue.warm_offset = self.next
        queue.min_offset = min(queue.min_offset, self.next)

    def _jump(self, queue_offset: int) -> None:
        """The record does not follow the one before it: entries are missing, or a deleted topic began anew."""
        if queue_offset > self.next and self._partial:
            raise EntriesMissing
        self._write()
        queue = self.queue
        if queue_offset < self.next:
            queue.min_offset = min(queue.min_offset, queue_offset)
        elif not queue.empty:
            self.lost += queue_offset - self.next
            queue.write(self.next, PRE_BLANK * (queue_offset - self.next))
        self._block_at = -1

    def _existing(self, queue_offset: int) -> tuple[int, int]:
        index = queue_offset - self._block_at
        if self._block_at < 0 or not 0 <= index * ENTRY_BYTES < len(self._block):
            self._block = b"" if self.queue.empty else self.queue.read(queue_offset, READ_ENTRIES)
            self._block_at = queue_offset
            index = 0
            if len(self._block) < ENTRY_BYTES:
                self._block = bytes(ENTRY_BYTES * READ_ENTRIES)
        log_offset, size, _ = ENTRY.unpack_from(self._block, index * ENTRY_BYTES)
        return log_offset, size

    def _write(self) -> None:
        if self._new:
            self.queue.write(self._new_at, b"".join(self._new))
            self._new = []


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
