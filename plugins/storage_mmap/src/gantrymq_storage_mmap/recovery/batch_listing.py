"""Listing the records of one batch queue again; the counterpart of `listing`.

Source: apache/rocketmq store/.../CommitLog.java (setBatchSizeIfNeeded), queue/BatchConsumeQueue.java.
"""

from __future__ import annotations

from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, pack_batch_entry, read_batch_entry
from gantrymq.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.tails import QueueTails
from gantrymq_storage_mmap.recovery.holes import EntriesMissing, Holes
from gantrymq_storage_mmap.recovery.listing import MAX_GAP_ENTRIES, MAX_QUEUE_OFFSET

__all__ = ["BatchListing"]


class BatchListing:
    """Follows the records of one batch queue, in log order."""

    __slots__ = ("_fed", "_holes", "_partial", "_tails", "leaves", "lost", "queue")

    def __init__(self, queue: BatchQueue, tails: QueueTails, holes: Holes, start: int, *, partial: bool) -> None:
        """Cut *queue* at its first entry at or behind log offset *start*; *partial*: records before it exist."""
        self.queue = queue
        self.leaves = False  # whether an entry stands behind the end that no record belongs to
        self.lost = 0  # messages that the log has no record for
        self._tails = tails
        self._holes = holes
        self._partial = partial
        self._fed = False
        tails.forget(queue)
        queue.settle(queue.first, queue.last_where(lambda entry: entry.log_offset < start, missing=False) + 1)

    def see(self, entry: DispatchEntry) -> str | None:
        """Take the next record. Returns why it gets no entry, None when it got its own.

        Raises:
            EntriesMissing: entries before it are missing, and the log may still have their records.
        """
        queue, base = self.queue, entry.queue_offset
        if base != queue.max_offset:
            problem = self._implausible(base)
            if problem is not None:
                return problem
            self._jump(base)
        self._fed = True
        if not queue.unwritten:
            self._tails.begin(queue)
        queue.list(
            entry,
            pack_batch_entry(
                entry.log_offset, entry.size, entry.tags_code, entry.store_timestamp, base, entry.messages
            ),
        )
        self._tails.grown(BATCH_ENTRY_BYTES)
        return None

    def finish(self) -> None:
        """The queue ends behind the last record that was shown, or where it was cut.

        Entries behind that for records that were lost stay: consumers may have seen those messages.
        """
        queue = self.queue
        while (found := self._existing()) is not None and self._holes.hold(found.log_offset):
            self.lost += found.messages
            if not queue.unwritten:
                self._tails.begin(queue)
            queue.append(queue.look(queue.end, BATCH_ENTRY_BYTES))
            queue.max_offset = found.end_offset
            self._tails.grown(BATCH_ENTRY_BYTES)
        self.leaves = found is not None
        queue.next_offset = queue.warm_offset = queue.max_offset

    def _existing(self) -> BatchQueueEntry | None:
        """The entry that the files hold behind the newest."""
        data = self.queue.look(self.queue.end, BATCH_ENTRY_BYTES)
        return read_batch_entry(data, 0) if len(data) == BATCH_ENTRY_BYTES else None

    def _implausible(self, base: int) -> str | None:
        """Why a record's queue offset cannot be true, or None; where there is a doubt it is believed."""
        expected = self.queue.max_offset
        if not 0 <= base <= MAX_QUEUE_OFFSET:
            return f"its queue offset is {base}"
        if self._fed and (base > expected + MAX_GAP_ENTRIES or 0 < base < expected):
            return f"its queue offset is {base}, {expected} follows in its queue"
        return None

    def _jump(self, base: int) -> None:
        """The record does not follow the one before it: entries are missing, or a deleted topic began anew."""
        queue = self.queue
        gap, lists = base - queue.max_offset, queue.number_end > queue.first
        if gap > 0 and self._partial and not self._fed:
            found = self._existing()
            if found is None or not self._holes.hold(found.log_offset):
                raise EntriesMissing
        if gap > 0 and lists:
            self.lost += gap
        elif gap < 0:  # only its new entries count
            self._tails.forget(queue)
            queue.settle(queue.first, queue.last_where(lambda entry: entry.end_offset <= base) + 1)
