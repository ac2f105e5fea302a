"""Bringing one batch queue in line with the log; the counterpart of `gantrymq_storage_mmap.recovery.queue_rebuild`.

Entries lie in the order of their records. Recovery feeds the records of the queue in log order; an entry that says of
its record what it should stays untouched, and one that does not is written anew.

Source: apache/rocketmq store/.../CommitLog.java (setBatchSizeIfNeeded), queue/BatchConsumeQueue.java.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gantrymq.formats.batch_entry import BATCH_ENTRY, BatchQueueEntry
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code_of
from gantrymq.model import properties as props
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq_storage_mmap.log.scan import Hole
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.recovery.queue_rebuild import (
    MAX_GAP_ENTRIES,
    MAX_QUEUE_OFFSET,
    WRITE_ENTRIES,
    EntriesMissing,
)

__all__ = ["BatchRebuild", "first_batch_entry_from", "messages_in"]


def messages_in(record: RecordView) -> int:
    """How many messages a record holds: INNER_NUM of an inner batch, else 1."""
    if not record.sys_flag & INNER_BATCH:
        return 1
    text = record.properties.get(props.INNER_NUM, "")
    return max(1, min(int(text), 32767)) if text.isascii() and text.isdecimal() else 1


class BatchRebuild:
    """Follows the records of one batch queue. `finish` writes what is left and sets the queue's offsets."""

    __slots__ = ("_at", "_expected", "_fed", "_holes", "_new", "_new_at", "_partial", "lost", "queue", "rebuilt")

    def __init__(self, queue: BatchQueue, log_start: int, *, partial: bool = False, holes: Sequence[Hole] = ()) -> None:
        """Records before log offset *log_start* are not fed; their entries are taken as they are.

        Args:
            queue: what is brought in line.
            log_start: where the fed part of the log begins.
            partial: records before it exist, so a gap before the first fed record may be filled from them.
            holes: damaged places of the fed part, in log order; grows while records are fed.
        """
        self.queue = queue
        self._at = first_batch_entry_from(queue, log_start)  # number of the next record's entry
        before = queue.entry(self._at - 1) if self._at > queue.first else None
        self._expected = before.end_offset if before is not None else None  # its base offset
        self._partial = partial
        self._holes = holes
        self._fed = False
        self.lost = 0  # messages that the log has no record for
        self.rebuilt = 0
        self._new: list[bytes] = []
        self._new_at = 0

    def see(self, record: RecordView, delay_levels_ms: tuple[int, ...]) -> str | None:
        """Take the next record of the queue. Returns why it gets no entry, None when it got its own.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        base, messages = record.queue_offset, messages_in(record)
        if base != self._expected:
            problem = self._implausible(base)
            if problem is not None:
                return problem
            self._jump(base)
        self._fed = True
        self._expected = base + messages
        code = tags_code_of(record.topic, record.properties, record.store_timestamp, delay_levels_ms)
        entry = BatchQueueEntry(record.log_offset, record.total_size, code, record.store_timestamp, base, messages)
        stored = self.queue.entry(self._at)
        if stored is None or stored[:6] != entry[:6]:
            if not self._new:
                self._new_at = self._at
            self._new.append(BATCH_ENTRY.pack(*entry))
            self.rebuilt += 1
            if len(self._new) >= WRITE_ENTRIES:
                self._write()
        elif self._new:
            self._write()
        self._at += 1
        return None

    def finish(self) -> None:
        """Write what is left; the queue ends behind the last record that was fed, or where it ended before them.

        Entries behind that for records that were lost stay: consumers may have seen those messages.
        """
        self._write()
        queue = self.queue
        while (entry := queue.entry(self._at)) is not None and self._in_hole(entry):
            self._at += 1
            self.lost += entry.messages
            self._expected = entry.end_offset
        queue.end = self._at
        queue.max_offset = queue.next_offset = queue.warm_offset = self._expected or 0

    def _implausible(self, base: int) -> str | None:
        """Why a record's queue offset cannot be true, or None; where there is a doubt it is believed."""
        expected = self._expected or 0
        if not 0 <= base <= MAX_QUEUE_OFFSET:
            return f"its queue offset is {base}"
        if self._fed and (base > expected + MAX_GAP_ENTRIES or 0 < base < expected):
            return f"its queue offset is {base}, {expected} follows in its queue"
        return None

    def _jump(self, base: int) -> None:
        """The record does not follow the one before it: entries are missing, or a deleted topic began anew."""
        gap = base - (self._expected or 0)
        if gap > 0 and self._partial and not self._fed:
            entry = self.queue.entry(self._at)
            if entry is None or not self._in_hole(entry):
                raise EntriesMissing
        if self._expected is not None and gap > 0:
            self.lost += gap
        elif gap < 0:
            self._began_anew(base)

    def _in_hole(self, entry: BatchQueueEntry) -> bool:
        """Whether *entry* names a record that was lost."""
        index = bisect_right(self._holes, entry.log_offset, key=lambda hole: hole.start) - 1
        return index >= 0 and entry.log_offset < self._holes[index].end

    def _began_anew(self, base: int) -> None:
        """The queue offsets start over below: the topic was deleted and made again, and only its new entries count."""
        self._write()
        self.queue.end = self._at
        self._at = max(self.queue.last_where(lambda entry: entry.end_offset <= base) + 1, self.queue.first)

    def _write(self) -> None:
        if self._new:
            self.queue.write(self._new_at, b"".join(self._new))
            self._new = []


def first_batch_entry_from(queue: BatchQueue, log_offset: int) -> int:
    """Number of the first entry at or behind *log_offset*, the queue's end when there is none."""
    return queue.last_where(lambda entry: entry.log_offset < log_offset) + 1
