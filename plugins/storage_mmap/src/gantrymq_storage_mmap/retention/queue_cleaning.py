"""Cleaning of queues: minima by the topic's reserve time, deletion of files below the minimum and of expired queues.

A queue's entries are in log order and therefore in order of store time, so each new minimum is found by bisection:
about 20 reads of a queue file, and as many of the log if time decides, in a thread. A queue file, or a file of ext
units, is deleted when everything in it is below the queue's minimum, but never the last one: it determines the queue's
next offset. An operator may remove queues whose messages have all left the log; such a queue begins at 0 when it is
used again.

Source: apache/rocketmq store/.../ConsumeQueue.java (correctMinOffset, deleteExpiredFile), queue/ConsumeQueueStore.java
(cleanExpired), queue/BatchConsumeQueue.java (correctMinOffset, deleteExpiredFile), ConsumeQueueExt.java
(truncateByMinAddress).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs

from gantrymq.plugin import names
from gantrymq.plugin.world import TimeSlices, Workers, World
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue, Read
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.dropper import QueueDropper
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile, first_false
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.reading.time_search import store_time
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry
from gantrymq_store_files.ext_unit import ext_position
from gantrymq_store_files.queue_entry import ENTRY_BYTES, is_ext_address

_TURN_QUEUES = 500  # queues examined in one turn of the event loop

IsExpired = Callable[[BatchQueueEntry], bool]  # whether an entry, and so all before it, is expired
ReadBytes = Callable[[int, int], bytes]  # of a queue, see `SegmentedFile.detached`
Pause = Callable[[str], Awaitable[bool]]  # waits for the time of a setting; returns False if the store is stopping


@attrs.define(eq=False)
class QueueCleaner:
    """Cleans the queues of one store. All methods belong to the event loop."""

    _world: World
    _log: CommitLog
    _queues: QueueTable
    _dropper: QueueDropper
    _reserve_ms: Callable[[str], int]  # retention time of a topic, -1 for the log's
    _trimmed: dict[ConsumeQueue, int] = attrs.field(factory=dict, init=False)  # files before this position are deleted

    async def by_reserve_time(self) -> int:
        """Raise the minima of topics with their own reserve time; return how many queues changed.

        Raises:
            OSError: the disk failed; nothing changed.
        """
        self._trimmed = {queue: keep for queue, keep in self._trimmed.items() if not queue.dropped}
        clock, workers = self._world.clock, self._world.workers
        now, slices = clock.now_ms(), TimeSlices(clock, _TURN_QUEUES)
        due: list[tuple[ConsumeQueue, Callable[[], int]]] = []
        batches: list[tuple[BatchQueue, IsExpired]] = []
        for topic, queues in list(self._queues.by_topic.items()):
            if (kept := self._reserve_ms(topic)) >= 0:
                for queue in queues:
                    if isinstance(queue, BatchQueue):
                        batches.append((queue, partial(_stored_before, now - kept)))
                    else:
                        low, high, read = queue.min_offset, queue.written_offset, queue.detached()
                        due.append((queue, partial(_first_since, now - kept, self._log, low, high, read)))
            await slices.item_done()
        moved = await advance_batch_queues(workers, batches)
        if not due:
            return moved
        minima = await workers.run(_first_kept, [find for _, find in due])
        for (queue, _), minimum in zip(due, minima, strict=True):
            if minimum > queue.min_offset:
                queue.min_offset, queue.oldest = minimum, -1
                moved += 1
        return moved

    async def trim(self, pause: Pause) -> int:
        """Delete queue files below the minima; return how many.

        Raises:
            OSError: a file cannot be deleted; the next call tries again.
        """
        file_bytes = self._queues.queue_files.file_bytes
        segmented_files, trimmed, slices = (
            list[tuple[SegmentedFile, int]](),
            {},
            TimeSlices(self._world.clock, _TURN_QUEUES),
        )
        for queue in list(self._queues.by_name.values()):
            await slices.item_done()
            # The file of the last entry stays, so that the queue keeps its offsets without any message.
            last = max(queue.written_offset - 1, 0) * ENTRY_BYTES
            keep = min(queue.min_offset * ENTRY_BYTES, last) // file_bytes * file_bytes
            trimmed[queue] = keep
            if not queue.empty and keep > self._trimmed.get(queue, 0):
                segmented_files.append((queue, keep))
        deleted = 0
        for segments, keep in segmented_files + self._other_segmented_files():
            for start in await self._world.workers.run(segments.starts):
                if start >= keep:
                    break
                if deleted and not await pause("deleteConsumeQueueFilesInterval"):
                    return deleted
                if segments.dropped:
                    break
                segments.files.forget_file(segments, start)
                await self._world.workers.run(segments.delete_file, start)
                deleted += 1
        self._trimmed = trimmed
        return deleted

    async def remove_expired(self) -> int:
        """Remove queues whose messages have all left the log, except those of system topics; return how many.

        Raises:
            OSError: the disk failed; some queues may have been removed.
        """
        removed, idle = 0, [queue for queue in self._queues.by_name.values() if _is_idle(queue)]
        for queue in await self._world.workers.run(_expired, idle, self._log.min_offset):
            if not queue.dropped and _is_idle(queue):
                self._dropper.remove(queue)
                removed += 1
        return removed

    def _other_segmented_files(self) -> list[tuple[SegmentedFile, int]]:
        """Return batch queues and ext files, each with the position of the first file to keep."""
        found: list[tuple[SegmentedFile, int]] = []
        for batch in self._queues.batch.values():
            if batch.first:
                found.append((batch, min(batch.first, batch.number_end - 1) * BATCH_ENTRY_BYTES))
        for queue in self._queues.by_name.values():
            if queue.ext is not None and queue.min_offset:
                entry = queue.entry(min(queue.min_offset, queue.max_offset - 1))
                if entry is not None and is_ext_address(entry[2]):
                    found.append((queue.ext, ext_position(entry[2])))
        return [(segments, keep - keep % segments.files.file_bytes) for segments, keep in found]


async def advance_batch_queues(workers: Workers, due: Sequence[tuple[BatchQueue, IsExpired]]) -> int:
    """Advance each batch queue past its expired entries; return how many changed. For the event loop."""
    if not due:
        return 0
    moved = 0
    firsts = await workers.run(_first_left, [(queue, gone, queue.detached_entries()) for queue, gone in due])
    for (queue, _), number in zip(due, firsts, strict=True):
        if not queue.dropped and number > queue.first:
            queue.begin_at(number)
            moved += 1
    return moved


def _first_left(due: Sequence[tuple[BatchQueue, IsExpired, Read]]) -> list[int]:
    """Runs in a thread."""
    return [queue.last_where(gone, read) + 1 for queue, gone, read in due]


def _stored_before(time_ms: int, entry: BatchQueueEntry) -> bool:
    return entry.store_timestamp < time_ms


def _first_kept(due: Sequence[Callable[[], int]]) -> list[int]:
    """Runs in a thread."""
    return [find() for find in due]


def _first_since(time_ms: int, log: CommitLog, low: int, high: int, read: ReadBytes) -> int:
    """Return the queue offset in ``[low, high]`` of the first message stored at *time_ms* or later."""

    def before(queue_offset: int) -> bool:
        return store_time(log, entry_of(read(queue_offset * ENTRY_BYTES, ENTRY_BYTES))) < time_ms

    return low if low >= high or not before(low) else first_false(before, low + 1, high)


def _is_idle(queue: ConsumeQueue) -> bool:
    at_end = queue.min_offset == queue.written_offset == queue.next_offset
    return at_end and not names.is_system_topic(queue.topic)


def _expired(queues: Sequence[ConsumeQueue], log_min: int) -> list[ConsumeQueue]:
    """Return the queues whose messages have all left the log. Runs in a thread."""
    last = [(queue, queue.entry_in_files(queue.written_offset - 1)) for queue in queues if queue.written_offset]
    return [queue for queue, entry in last if entry is not None and entry[0] < log_min]
