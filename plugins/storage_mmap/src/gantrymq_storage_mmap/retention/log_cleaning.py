"""Deleting log files: the name goes in a thread, then the log and its queues begin later, in one step of the loop.

A file goes only when it is durable and published, and never the newest. Its name is gone for good (the folder is
synced) before the next file's turn, so that a crash never leaves a hole in the log. Whoever still reads the file keeps
its bytes.

Source: apache/rocketmq store/.../MappedFileQueue.java (deleteExpiredFileByTime).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gantrymq.world import Clock, Files, Workers
from gantrymq_storage_mmap.checkpoint.checkpointer import Checkpointer
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.beside_cleaning import BesideCleaner
from gantrymq_storage_mmap.retention.queue_minima import Minimum, first_from, first_in_log, spans_of

__all__ = ["LogCleaner"]

TURN_QUEUES = 2000  # so many begin later in one turn of the event loop


class LogCleaner:
    """Deletes the oldest file of one log. All methods belong to the event loop."""

    def __init__(
        self,
        files: Files,
        workers: Workers,
        log: CommitLog,
        queues: QueueTable,
        durable: Callable[[], int],
        checkpointer: Checkpointer,
        clock: Clock,
    ) -> None:
        """*durable*: the log offset before which everything is durable and published."""
        self._files = files
        self._workers = workers
        self._log = log
        self._queues = queues
        self._beside = BesideCleaner(files, workers, queues)
        self._durable = durable
        self._checkpointer = checkpointer
        self._clock = clock

    def candidates(self, most: int) -> list[LogFile]:
        """The oldest files that may go, at most so many."""
        limit = self._durable()
        return [file for file in self._log.files[:-1][:most] if file.end <= limit]

    async def ages(self, candidates: Sequence[LogFile]) -> list[int]:
        """When each was last written, wall time in ms; a file that is gone counts as very old. Raises OSError."""
        return await self._workers.run(_modified, self._files, [file.path for file in candidates])

    async def queues_have_it(self) -> bool:
        """Whether the entries of the oldest file's records are durable: without the records nothing could make them
        again, and a queue must not forget its numbers.

        A disk that has no room for them is the exception, as deleting is what makes room: then the numbers are saved.
        """
        if self._checkpointer.durable_offset >= self._log.files[0].end:
            return True
        return self._queues.tails.full and await self._checkpointer.save_numbers()

    def hasten_queues(self) -> None:
        """Have entries made durable now."""
        self._checkpointer.hasten()

    async def delete_first(self) -> int:
        """Delete the oldest file; returns where the log begins now.

        Raises:
            OSError: it cannot be deleted; it stays part of the log, and the next call tries it again.
        """
        file = self._log.files[0]
        queues = list(self._queues.by_name.values())
        minima = await self._workers.run(_delete, self._files, file.path, queues, file.end)
        await self._beside.follow_log(file.end)
        self._log.drop_first()
        for number, (queue, minimum, oldest) in enumerate(minima, 1):
            if not queue.dropped:
                found = first_from(queue, max(queue.min_offset, minimum), file.end)
                queue.min_offset, queue.oldest = found, oldest if found == minimum else -1
            if not number % TURN_QUEUES:
                await self._clock.sleep(0)
        return self._log.min_offset


def _modified(files: Files, paths: Sequence[Path]) -> list[int]:
    stats = [files.stat(path) for path in paths]
    return [stat.modified_ms if stat is not None else 0 for stat in stats]


def _delete(files: Files, path: Path, queues: Sequence[ConsumeQueue], log_min: int) -> list[Minimum]:
    """Runs in a thread; doing it again does no harm. Returns the queues that may begin later now, and where."""
    files.remove(path)
    files.sync_dir(path.parent)
    return [first_in_log(span, log_min) for span in spans_of(queues) if span.queue.oldest < log_min]
