"""Requeuing: appending the queue entries of records again, from the place where a queue was cut.

A message whose record was lost to damage keeps its queue offset. Its entry becomes a copy of the entry after it, or, if
there is none yet, of the one before it. Our readers skip an entry that repeats another (see `selection`); a Java broker
delivers that message twice. A pre-blank entry would be worse: after one, a Java broker skips the other entries of the
same pull whose records are in the log's first file.

Source of batch queues: apache/rocketmq store/.../CommitLog.java (setBatchSizeIfNeeded), queue/BatchConsumeQueue.java.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import Generic, TypeVar

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.pending_entries import PendingEntries
from gantrymq_storage_mmap.queues.segmented_file import first_false
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, pack_batch_entry, read_batch_entry
from gantrymq_store_files.blank import without_zeros
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_pre_blank

MAX_GAP_ENTRIES = 1_000_000  # a larger gap between two records of a queue means that the second is damaged
_LOOK_ENTRIES = 3200  # read after the end of a queue; usually a hole, so the disk is not read
_MAX_QUEUE_OFFSET = 2**52  # 20 bytes each, and the position must fit an int64

Q = TypeVar("Q", bound=ConsumeQueue | BatchQueue)


class EntriesMissing(Exception):
    """Raised when a queue lacks entries from before the part of the log that was read. Handled by recovery."""


class LogHoles:
    """Damaged places of the log with sound records after them, in log order."""

    def __init__(self) -> None:
        self.found: list[LogDamage] = []

    def add(self, hole: LogDamage) -> None:
        """Add a hole after all others; adjacent holes are joined."""
        if self.found and self.found[-1].end == hole.log_offset:
            before = self.found.pop()
            hole = before._replace(size=before.size + hole.size)
        self.found.append(hole)

    def hold(self, log_offset: int) -> bool:
        """Return whether the record at *log_offset* was lost."""
        index = bisect_right(self.found, log_offset, key=lambda hole: hole.log_offset) - 1
        return index >= 0 and log_offset < self.found[index].end


class Requeue(ABC, Generic[Q]):
    """Processes the records of one queue in log order."""

    __slots__ = ("_fed", "_holes", "_partial", "_pending", "has_leftovers", "lost", "queue")

    def __init__(self, queue: Q, pending: PendingEntries, holes: LogHoles, start: int, *, partial: bool) -> None:
        """Cut *queue* at its first entry at or after log offset *start*; *partial*: there are records before it."""
        self.queue: Q = queue
        self.lost = 0  # number of messages without a record in the log
        self.has_leftovers = False  # whether the files hold anything after the end
        self._pending = pending
        self._holes = holes
        self._partial = partial
        self._fed = False
        self._cut(start)

    def process(self, entry: DispatchEntry) -> str | None:
        """Process the next record. Return None if its entry was appended, else why it gets no entry.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        if entry.queue_offset != self.queue.max_offset:
            problem = self._implausible(entry)
            if problem is not None:
                return problem
            self._jump(entry)
        self._fed = True
        self._list(entry)
        return None

    def finish(self) -> None:
        """Set the end of the queue: after the last processed record, or where it was cut.

        Entries after that for lost records stay, because consumers may have seen those messages.
        """
        queue = self.queue
        self._keep_lost()
        queue.next_offset = queue.warm_offset = queue.max_offset

    def _append(self, packed: bytes) -> None:
        self.queue.append(packed)
        self._pending.appended(self.queue, len(packed))

    def _implausible(self, entry: DispatchEntry) -> str | None:
        """Return why the queue offset of a record cannot be right, or None.

        The log is in the order of each queue, and no check sum covers the queue offset. In doubt it is accepted:
        offsets restart when a topic was deleted, and jump if records were lost.
        """
        queue_offset, expected = entry.queue_offset, self.queue.max_offset
        if not 0 <= queue_offset <= _MAX_QUEUE_OFFSET:
            return f"its queue offset is {queue_offset}"
        if self._fed and (queue_offset > expected + MAX_GAP_ENTRIES or 0 < queue_offset < expected):
            return f"its queue offset is {queue_offset}, but the next one in its queue is {expected}"
        return None

    @abstractmethod
    def _cut(self, start: int) -> None:
        """Cut the queue before its first entry at or after log offset *start*."""

    @abstractmethod
    def _list(self, entry: DispatchEntry) -> None:
        """Append the entry of a record."""

    @abstractmethod
    def _jump(self, entry: DispatchEntry) -> None:
        """Handle a record that does not follow the one before: entries are missing, or a deleted topic restarted."""

    @abstractmethod
    def _keep_lost(self) -> None:
        """Append the entries of lost records after the end, and check whether the files hold anything else there."""


class ConsumeQueueRequeue(Requeue[ConsumeQueue]):
    """Requeuing of an ordinary queue."""

    __slots__ = ("_seen", "_seen_from", "_seen_to")

    def _cut(self, start: int) -> None:
        queue, pending = self.queue, self._pending
        self._seen_from = max(queue.max_offset - 1, 0)
        self._seen_to = self._seen_from + min(_LOOK_ENTRIES, queue.in_file(self._seen_from))
        self._seen = self._look(self._seen_from, self._seen_to)
        end, ext = self._first_from(start), queue.ext
        pending.forget(queue)
        if ext is not None:
            pending.forget(ext)
            before = queue.entry(end - 1) if end > queue.min_offset else None
            if before is None or is_pre_blank(*before[:2]):
                ext.cut(next(iter(ext.starts()), 0))
            else:
                ext.cut(ext.end_after(before[2]))
        queue.cut(end * ENTRY_BYTES)

    def _list(self, entry: DispatchEntry) -> None:
        code, ext = entry.tags_code, self.queue.ext
        if ext is not None and ext.writes:  # the bits are taken from an existing unit of the same record
            before = ext.end
            code = ext.add_again(code, entry.store_timestamp)
            self._pending.appended(ext, ext.end - before)
        self._append(ENTRY.pack(entry.log_offset, entry.size, code))

    def _keep_lost(self) -> None:
        queue, end = self.queue, self.queue.max_offset
        if (found := self._existing(end)) is not None:
            last = queue.entry(end - 1) if end > queue.min_offset else None
            while found is not None and (found == last or self._holes.hold(found[0])):
                end += 1
                found = self._existing(end)
        self.has_leftovers = found is not None or self._holds_more(end)
        if end > queue.max_offset:
            self.lost += end - queue.max_offset
            before = queue.entries(queue.max_offset - 1, 1) if queue.max_offset > queue.min_offset else b""
            self._append((before or PRE_BLANK) * (end - queue.max_offset))
        queue.min_offset = min(queue.min_offset, queue.max_offset)

    def _implausible(self, entry: DispatchEntry) -> str | None:
        expected = self.queue.max_offset
        if self._refers_to(expected, entry) and not self._refers_to(entry.queue_offset, entry):
            return f"its queue offset is {entry.queue_offset}, but entry {expected} of its queue refers to it"
        return super()._implausible(entry)

    def _jump(self, entry: DispatchEntry) -> None:
        queue, queue_offset = self.queue, entry.queue_offset
        gap = queue_offset - queue.max_offset
        if gap > 0 and self._partial and not self._fed:
            for number in range(queue.max_offset, queue_offset):
                found = self._existing(number)
                if found is None or not (self._holes.hold(found[0]) or self._refers_to(number, entry)):
                    raise EntriesMissing
        if gap < 0:
            self._pending.forget(queue)
            queue.cut(queue_offset * ENTRY_BYTES)
            queue.min_offset = min(queue.min_offset, queue_offset)
        elif queue.empty and not queue.tail:
            queue.begin_at(queue_offset)
        else:
            self.lost += gap
            self._append(ENTRY.pack(entry.log_offset, entry.size, entry.tags_code) * gap)

    def _existing(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Return the entry in the files; None if it was never written."""
        if self._seen_from <= queue_offset < self._seen_to:
            at = (queue_offset - self._seen_from) * ENTRY_BYTES
            data = self._seen[at : at + ENTRY_BYTES]
        else:
            data = self._look(queue_offset, queue_offset + 1)
        return entry_of(data.ljust(ENTRY_BYTES, b"\0"))

    def _holds_more(self, queue_offset: int) -> bool:
        """Return whether the files hold anything from *queue_offset* on."""
        if self._seen_from <= queue_offset <= self._seen_to:
            return len(self._seen) > (queue_offset - self._seen_from) * ENTRY_BYTES
        return bool(self._look(queue_offset, queue_offset + _LOOK_ENTRIES))

    def _look(self, start: int, end: int) -> bytes:
        """Return the entries ``[start, end)`` of one file without trailing zeros."""
        if start < 0:
            return b""
        return without_zeros(self.queue.read_files(start * ENTRY_BYTES, (end - start) * ENTRY_BYTES))

    def _first_from(self, log_offset: int) -> int:
        """Return the queue offset of the first entry at or after *log_offset*, the queue's end if there is none.

        Pre-blank entries count as before everything, entries never written as after everything. The search starts at
        the end and doubles its steps, because the result is usually close to the end.
        """

        def before(queue_offset: int) -> bool:
            entry = self._existing(queue_offset)
            return entry is not None and (entry[0] < log_offset or is_pre_blank(entry[0], entry[1]))

        low, high, step = self.queue.min_offset, self.queue.max_offset, 1
        if low >= high or before(high - 1):
            return high
        high -= 1
        while low < high:
            probe = max(high - step, low)
            if before(probe):
                low = probe + 1
                break
            high, step = probe, 2 * step
        return first_false(before, low, high)

    def _refers_to(self, queue_offset: int, entry: DispatchEntry) -> bool:
        """Return whether the entry at *queue_offset* in the files refers to the record."""
        if queue_offset > _MAX_QUEUE_OFFSET:
            return False
        found = self._existing(queue_offset)
        return found is not None and found[:2] == (entry.log_offset, entry.size)


class BatchQueueRequeue(Requeue[BatchQueue]):
    """Requeuing of a batch queue."""

    __slots__ = ()

    def _cut(self, start: int) -> None:
        self._end_after(self.queue.last_where(lambda entry: entry.log_offset < start, missing=False))

    def _end_after(self, number: int) -> None:
        """Cut the queue after entry *number*."""
        self._pending.forget(self.queue)
        self.queue.settle(self.queue.first, number + 1)

    def _list(self, entry: DispatchEntry) -> None:
        packed = pack_batch_entry(
            entry.log_offset,
            entry.size,
            entry.tags_code,
            entry.store_timestamp,
            entry.queue_offset,
            entry.messages,
        )
        self.queue.list(entry, packed)
        self._pending.appended(self.queue, len(packed))

    def _jump(self, entry: DispatchEntry) -> None:
        queue, queue_offset = self.queue, entry.queue_offset
        gap = queue_offset - queue.max_offset
        if gap > 0 and self._partial and not self._fed:
            found = self._existing()
            if found is None or not self._holes.hold(found.log_offset):
                raise EntriesMissing
        if gap > 0 and queue.number_end > queue.first:
            self.lost += gap
        elif gap < 0:  # only the new entries count
            self._end_after(queue.last_where(lambda entry: entry.end_offset <= queue_offset))

    def _keep_lost(self) -> None:
        queue = self.queue
        while (found := self._existing()) is not None and self._holes.hold(found.log_offset):
            self.lost += found.messages
            self._append(queue.read_files(queue.end, BATCH_ENTRY_BYTES))
            queue.max_offset = found.end_offset
        self.has_leftovers = bool(without_zeros(queue.read_files(queue.end, _LOOK_ENTRIES * BATCH_ENTRY_BYTES)))

    def _existing(self) -> BatchQueueEntry | None:
        """Return the entry in the files after the newest one."""
        data = self.queue.read_files(self.queue.end, BATCH_ENTRY_BYTES)
        return read_batch_entry(data, 0) if len(data) == BATCH_ENTRY_BYTES else None
