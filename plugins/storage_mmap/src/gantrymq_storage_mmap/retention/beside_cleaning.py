"""Batch queues and ext files after their messages: minima that follow the log or the topic's time, files that go.

As of ordinary queues (`queue_cleaning`), a file goes when everything in it lies below the minimum, and never a queue's
last one.

Source: apache/rocketmq store/.../queue/BatchConsumeQueue.java (deleteExpiredFile, correctMinOffset),
ConsumeQueueExt.java (truncateByMinAddress).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry
from gantrymq.formats.ext_unit import ext_position
from gantrymq.formats.queue_entry import is_ext_address
from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue, Read
from gantrymq_storage_mmap.queues.file_row import FileRow
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.queue_minima import delete_file, starts_before

__all__ = ["BesideCleaner"]

Pause = Callable[[str], Awaitable[bool]]


class BesideCleaner:
    """Cleans the batch queues and the ext files of one store. All methods belong to the event loop."""

    def __init__(self, files: Files, workers: Workers, queues: QueueTable) -> None:
        self._files = files
        self._workers = workers
        self._queues = queues

    async def follow_log(self, log_min: int) -> None:
        """Move the minima of batch queues to where the log begins."""
        if not self._queues.batch:
            return
        readers = [(queue, queue.detached()) for queue in self._queues.batch.values()]
        for queue, number in await self._workers.run(_first_in_log, readers, log_min):
            _begin(queue, number)

    async def follow_time(self, now_ms: int, reserve_ms: Callable[[str], int]) -> int:
        """Move the minima of batch queues whose topic keeps messages for a time; returns how many queues moved."""
        kept = [(queue, reserve_ms(queue.topic)) for queue in self._queues.batch.values()]
        due = [(queue, queue.detached(), now_ms - time_ms) for queue, time_ms in kept if time_ms >= 0]
        if not due:
            return 0
        return sum(_begin(queue, number) for queue, number in await self._workers.run(_first_since, due))

    async def trim(self, pause: Pause, deleted: int) -> int:
        """Delete files below the minima; *deleted* were before, and the sum is returned.

        Raises:
            OSError: one cannot be deleted; the next call tries it again.
        """
        for row, keep in self._kept_from():
            for start in await self._workers.run(starts_before, self._files, row.folder, keep):
                if deleted and not await pause("deleteConsumeQueueFilesInterval"):
                    return deleted
                if row.dropped:
                    break
                row.files.forget_file(row, start)
                await self._workers.run(delete_file, self._files, row.folder, start)
                deleted += 1
        return deleted

    def _kept_from(self) -> list[tuple[FileRow, int]]:
        """Batch queues and ext files, each with the position of the first file that stays."""
        found: list[tuple[FileRow, int]] = []
        for queue in self._queues.batch.values():
            if queue.first:
                found.append((queue, min(queue.first, queue.number_end - 1) * BATCH_ENTRY_BYTES))
        for ordinary in self._queues.by_name.values():
            if ordinary.ext is not None and ordinary.min_offset:
                entry = ordinary.entry(min(ordinary.min_offset, ordinary.max_offset - 1))
                if entry is not None and is_ext_address(entry[2]):
                    found.append((ordinary.ext, ext_position(entry[2])))
        return [(row, keep - keep % row.files.file_bytes) for row, keep in found]


def _begin(queue: BatchQueue, number: int) -> bool:
    """Let *queue* begin at entry *number*, unless it begins there or behind it, or went meanwhile."""
    if queue.dropped or number <= queue.first:
        return False
    queue.begin_at(number)
    return True


def _first_in_log(readers: Sequence[tuple[BatchQueue, Read]], log_min: int) -> list[tuple[BatchQueue, int]]:
    """Runs in a thread."""
    return [(queue, queue.last_where(lambda entry: entry.log_offset < log_min, read) + 1) for queue, read in readers]


def _first_since(due: Sequence[tuple[BatchQueue, Read, int]]) -> list[tuple[BatchQueue, int]]:
    """Runs in a thread."""
    return [(queue, queue.last_where(partial(_is_before, time_ms), read) + 1) for queue, read, time_ms in due]


def _is_before(time_ms: int, entry: BatchQueueEntry) -> bool:
    return entry.store_timestamp < time_ms
