"""Reading a batch queue: which records one pull gets.

The rules are those of ordinary queues (`reading.get`) with one more: a record with several messages
counts as so many, and is returned whole or not at all, also to a pull that starts inside it; the client drops what it
has.

An inner batch has no tag as a rule, whatever its messages have. Java's filter by tags drops such a batch, so a consumer
with a tag never sees its messages; here it passes, and the client, which filters once more, takes what it asked for.

Source: apache/rocketmq store/.../DefaultMessageStore.java (getMessage), queue/BatchConsumeQueue.java (iterateFrom).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from gantrymq.errors import FormatError, StoreError
from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, read_batch_entry
from gantrymq.formats.record import read_record
from gantrymq.interfaces import GetLimit, GetResult, GetStatus, MessageFilter
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue, Read
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.reading.read_check import Damaged, sound_pieces
from gantrymq_storage_mmap.reading.selection import Selection

__all__ = ["BatchReader"]


class BatchReader:
    """Serves gets from batch queues."""

    def __init__(self, log: CommitLog, workers: BoundedWorkers, options: Options, damaged: Damaged) -> None:
        """*damaged* counts and tells the records that were refused."""
        self._damaged = damaged
        self._log = log
        self._workers = workers
        self._options = options
        self.reading = 0  # cold reads that are under way

    def get(
        self, queue: BatchQueue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read *queue* from *queue_offset*; an awaitable when entries or records may be on disk only."""
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if queue_offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if queue_offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, low, high)
        if queue_offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        if match is not None and match.accepts_all:
            match = None
        if queue_offset < queue.warm_offset:
            return self._cold(queue, queue_offset, limit, match)
        number = queue.find(queue_offset)
        entries = _entries(queue.read_entries(number, self._wanted(limit)))
        if not entries:
            return self._no_entries(queue, number)
        if entries[0].log_offset < self._log.hot_offset:
            return self._cold(queue, queue_offset, limit, match)
        selection = Selection(self._log, self._options, queue_offset, limit)
        for entry in self._candidates(selection, entries, limit, match):
            (data,) = self._log.read_hot([(entry.log_offset, entry.log_offset + entry.size)])
            _settle(selection, entry, data, match)
        self._note_place(queue, selection, number, entries)
        return selection.result(low, high, self._log.read_hot(selection.runs))

    def _wanted(self, limit: GetLimit) -> int:
        """How many entries may be looked at."""
        return -(-max(self._options.scan_bytes, limit.max_count * BATCH_ENTRY_BYTES) // BATCH_ENTRY_BYTES)

    def _candidates(
        self, selection: Selection, entries: list[BatchQueueEntry], limit: GetLimit, match: MessageFilter | None
    ) -> Iterator[BatchQueueEntry]:
        """Entries that pass the first stage and whose record is there, until the selection is full."""
        furthest = selection.next_offset + self._wanted(limit)
        for entry in entries:
            if entry.base_offset >= furthest or selection.full(entry.log_offset, entry.size):
                return
            if selection.count and selection.count + entry.messages > limit.max_count:
                return
            selection.next_offset = entry.end_offset
            if match is not None and entry.tags_code and not match.match_entry(entry.tags_code, None):
                selection.skipped()
            elif not selection.present(entry.log_offset, entry.size):
                selection.missed()
            else:
                yield entry

    def _note_place(self, queue: BatchQueue, selection: Selection, number: int, entries: list[BatchQueueEntry]) -> None:
        for index, entry in enumerate(entries, number + 1):
            if entry.end_offset == selection.next_offset:
                queue.goes_on(selection.next_offset, index)

    def _no_entries(self, queue: BatchQueue, number: int) -> GetResult:
        """The file that should hold the entry is missing: go on with the next one."""
        per_file = self._options.batch_file_bytes // BATCH_ENTRY_BYTES
        following = queue.entry(number - number % per_file + per_file)
        next_offset = queue.max_offset if following is None else following.base_offset
        return GetResult(GetStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset)

    # --- cold -------------------------------------------------------------------------------------------------------

    async def _cold(
        self, queue: BatchQueue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """`_get_cold`, counted while it runs, its errors those of a store."""
        self.reading += 1
        try:
            return await self._get_cold(queue, queue_offset, limit, match)
        except OSError as error:
            raise StoreError(
                f"queue {queue.topic}/{queue.queue_id} cannot be read at {queue_offset}: {error}"
            ) from error
        finally:
            self.reading -= 1

    async def _get_cold(
        self, queue: BatchQueue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult:
        """The same through threads: entries are read there, then records; filters run on the event loop."""
        number, data = await self._workers.run(
            _find_detached, queue, queue.detached(), queue_offset, self._wanted(limit)
        )
        entries = _entries(data)
        if not entries:
            return self._no_entries(queue, number)
        selection = Selection(self._log, self._options, queue_offset, limit)
        buffers: list[bytes | memoryview] = []
        for entry in self._candidates(selection, entries, limit, match):
            found, problem = await self._workers.run(self._read_checked, queue.topic.encode(), entry)
            if problem is not None:
                self._damaged.refuse(entry.log_offset, problem)
                selection.missed()
            elif _settle(selection, entry, found, match):
                buffers.append(found)
        return selection.result(queue.min_offset, queue.max_offset, buffers, cold=True)

    def _read_checked(self, topic: bytes, entry: BatchQueueEntry) -> tuple[bytes, str | None]:
        """A record through a descriptor, or why it is refused. Runs in a thread; what is gone reads as nothing."""
        start, file = entry.log_offset, self._log.find(entry.log_offset)
        if file is None:
            return b"", None
        data = file.pread(start, start + entry.size)
        wanted = {start: (entry.size, entry.base_offset, entry.base_offset)}
        damaged = sound_pieces(start, data, wanted, topic)[1]
        return data, damaged[0][2] if damaged else None


def _settle(
    selection: Selection, entry: BatchQueueEntry, data: bytes | memoryview, match: MessageFilter | None
) -> bool:
    """Take the record *data* of *entry* if the second stage lets it pass; whether it was taken."""
    if match is not None and match.needs_message:
        try:
            passes = match.match_message(read_record(data))
        except FormatError:
            selection.missed()
            return False
        if not passes:
            selection.skipped()
            return False
    selection.add(entry.log_offset, entry.size)
    selection.count += entry.messages - 1
    return True


def _entries(data: bytes) -> list[BatchQueueEntry]:
    """Packed entries, up to the first that was never written."""
    found: list[BatchQueueEntry] = []
    for index in range(len(data) // BATCH_ENTRY_BYTES):
        entry = read_batch_entry(data, index)
        if entry is None:
            break
        found.append(entry)
    return found


def _find_detached(queue: BatchQueue, read: Read, queue_offset: int, count: int) -> tuple[int, bytes]:
    """Number and packed entries from the one that covers *queue_offset*. Runs in a thread."""
    number = queue.find(queue_offset, read)
    return number, read(number, count)
