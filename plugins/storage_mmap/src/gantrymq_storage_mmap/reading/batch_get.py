"""Reading a batch queue: selects the records that one pull returns.

The rules are those of ordinary queues (`reading.get`) with one addition: a record with several messages counts as that
many, and is returned whole or not at all, also if the pull starts inside it; the client drops the messages it already
has.

An inner batch usually has no tag, whatever tags its messages have. Java's tag filter drops such a batch, so a consumer
with a tag never gets its messages; here the batch passes, and the client filters its messages.

Source: apache/rocketmq store/.../DefaultMessageStore.java (getMessage), queue/BatchConsumeQueue.java (iterateFrom).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

import attrs

from gantrymq.errors import FilterBudgetExceeded
from gantrymq.plugin.interfaces import GetLimit, GetResult, GetStatus, MessageFilter
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue, Read
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer, is_impossible
from gantrymq_storage_mmap.reading.read_check import DamagedRecords, read_each
from gantrymq_storage_mmap.reading.selection import MAX_EXAMINED, Selection, outside
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, read_batch_entry


@attrs.frozen(eq=False)
class BatchReader:
    """Serves gets from batch queues."""

    _log: CommitLog
    _workers: BoundedWorkers
    _options: Options
    _damaged: DamagedRecords  # counts and logs refused records
    _entry_repairer: EntryRepairer

    def get(
        self, queue: BatchQueue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read *queue* from *queue_offset*; returns an awaitable if entries or records may be on disk only."""
        low, high = queue.min_offset, queue.max_offset
        if not low <= queue_offset < high:
            return outside(queue_offset, low, high)
        if match is not None and match.accepts_all:
            match = None
        if queue_offset < queue.warm_offset:
            return self._cold(queue, queue_offset, limit, match)
        number = queue.find(queue_offset)
        entries = self._whole(_entries(queue.read_entries(number, self._wanted(limit))))
        if not entries and self._entry_repairer.can_repair(queue, number):
            return self._again(queue, number, queue_offset, limit, match)
        if not entries:
            return self._no_entries(queue, number)
        if entries[0].log_offset < self._log.hot_offset:
            return self._cold(queue, queue_offset, limit, match)
        selection = Selection(self._log, self._options, queue_offset, limit)
        try:
            for entry in self._candidates(selection, entries, limit, match):
                (data,) = self._log.read_hot([(entry.log_offset, entry.log_offset + entry.size)])
                _settle(selection, entry, data, match)
        except FilterBudgetExceeded:
            selection.step_back()
        self._note_place(queue, selection, number, entries)
        return selection.result(low, high, self._log.read_hot(selection.runs))

    def _wanted(self, limit: GetLimit) -> int:
        """Return how many entries may be examined."""
        most = min(limit.max_count, MAX_EXAMINED)
        return -(-max(self._options.scan_bytes, most * BATCH_ENTRY_BYTES) // BATCH_ENTRY_BYTES)

    def _candidates(
        self, selection: Selection, entries: list[BatchQueueEntry], limit: GetLimit, match: MessageFilter | None
    ) -> Iterator[BatchQueueEntry]:
        """Yield entries that pass the first filter stage and have a record, until the selection is full."""
        furthest = selection.next_offset + self._wanted(limit)
        for entry in entries:
            if entry.base_offset >= furthest or selection.full(entry.log_offset, entry.size):
                return
            if selection.count and selection.count + entry.messages > limit.max_count:
                return
            selection.examine(entry.end_offset)
            if match is not None and entry.tags_code and not match.match_entry(entry.tags_code, None):
                selection.skipped()
            elif not selection.present(entry.log_offset, entry.size):
                selection.missed()
            else:
                yield entry

    def _note_place(self, queue: BatchQueue, selection: Selection, number: int, entries: list[BatchQueueEntry]) -> None:
        for index, entry in enumerate(entries, number + 1):
            if entry.end_offset == selection.next_offset:
                queue.remember_position(selection.next_offset, index)

    def _whole(self, entries: list[BatchQueueEntry]) -> list[BatchQueueEntry]:
        """Return *entries* before the first impossible one; a get stops there and the next one begins there."""
        log_end = self._log.end
        for index, entry in enumerate(entries):
            if is_impossible(entry.log_offset, entry.size, log_end):
                return entries[:index]
        return entries

    async def _again(
        self, queue: BatchQueue, number: int, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """Rebuild the entries around *number* and repeat the get."""
        await self._entry_repairer.repair(queue, number)
        found = self.get(queue, queue_offset, limit, match)
        return found if isinstance(found, GetResult) else await found

    def _no_entries(self, queue: BatchQueue, number: int) -> GetResult:
        """Return the result if the entry's file is missing and could not be rebuilt: continue in the next file."""
        per_file = self._options.batch_file_bytes // BATCH_ENTRY_BYTES
        following = queue.entry(number - number % per_file + per_file)
        next_offset = queue.max_offset if following is None else following.base_offset
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset)

    # --- cold -------------------------------------------------------------------------------------------------------

    async def _cold(
        self, queue: BatchQueue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """Read entries and then records in threads; filters run on the event loop."""
        workers, topic = self._workers, queue.topic.encode()
        with workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}"):
            number, data = await workers.run(
                _find_detached, queue, queue.detached_entries(), queue_offset, self._wanted(limit)
            )
            entries = self._whole(_entries(data))
            if not entries and self._entry_repairer.can_repair(queue, number):
                return await self._again(queue, number, queue_offset, limit, match)
            if not entries:
                return self._no_entries(queue, number)
            selection = Selection(self._log, self._options, queue_offset, limit)
            buffers: list[bytes | memoryview] = []
            try:
                for entry in self._candidates(selection, entries, limit, match):
                    place, size, base_offset = entry.log_offset, entry.size, entry.base_offset
                    wanted = {place: (size, base_offset, base_offset)}
                    ((found, problem),) = await workers.run(read_each, self._log, [(place, size)], wanted, topic)
                    if problem is not None:
                        self._damaged.refuse(place, problem)
                    if problem is not None or not found:  # damaged, or deleted meanwhile
                        selection.missed()
                    elif _settle(selection, entry, found, match):
                        buffers.append(found)
            except FilterBudgetExceeded:
                selection.step_back()
            return selection.result(queue.min_offset, queue.max_offset, buffers, cold=True)


def _settle(
    selection: Selection, entry: BatchQueueEntry, data: bytes | memoryview, match: MessageFilter | None
) -> bool:
    """Take the record *data* of *entry* if it passes the second filter stage; return whether it was taken."""
    if match is None or not match.needs_message:
        taken = selection.add(entry.log_offset, entry.size)
    else:
        taken = selection.add_matching(entry.log_offset, entry.size, data, match)
    if taken:
        selection.count += entry.messages - 1
    return taken


def _entries(data: bytes) -> list[BatchQueueEntry]:
    """Unpack entries up to the first that was never written."""
    found: list[BatchQueueEntry] = []
    for index in range(len(data) // BATCH_ENTRY_BYTES):
        entry = read_batch_entry(data, index)
        if entry is None:
            break
        found.append(entry)
    return found


def _find_detached(queue: BatchQueue, read: Read, queue_offset: int, count: int) -> tuple[int, bytes]:
    """Return number and packed entries, starting with the one that covers *queue_offset*. Runs in a thread."""
    number = queue.find(queue_offset, read)
    return number, read(number, count)
