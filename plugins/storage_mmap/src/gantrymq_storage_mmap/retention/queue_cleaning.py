"""Queues after their messages: minima by the topic's time, files below the minimum, queues that are empty for good.

A queue file goes when every entry in it lies below the queue's minimum, and never the queue's last one: it holds where
the queue goes on. An operator may have whole queues removed whose messages have all left the log; such a queue begins
at 0 when it is used again.

Source: apache/rocketmq store/.../ConsumeQueue.java (deleteExpiredFile), queue/ConsumeQueueStore.java (cleanExpired).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.model import names
from gantrymq.world import World
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.snapshot import LogSnapshot
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropping import Dropping
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.retention.beside_cleaning import BesideCleaner
from gantrymq_storage_mmap.retention.queue_minima import (
    QueueSpan,
    delete_file,
    first_since,
    is_expired,
    spans_of,
    starts_before,
)

__all__ = ["QueueCleaner"]

TURN_QUEUES = 500  # so many are looked at in one turn of the event loop

Pause = Callable[[str], Awaitable[bool]]  # waits as long as the setting says; false when the store is to stop


class QueueCleaner:
    """Cleans the queues of one store. All methods belong to the event loop."""

    def __init__(
        self,
        world: World,
        log: CommitLog,
        queues: QueueTable,
        dropping: Dropping,
        reserve_ms: Callable[[str], int],
    ) -> None:
        """*reserve_ms*: how long a topic keeps messages, -1 for as long as the log."""
        self._files, self._workers, self._clock = world.files, world.workers, world.clock
        self._dropping = dropping
        self._log = log
        self._queues = queues
        self._beside = BesideCleaner(world.files, world.workers, queues)
        self._reserve_ms = reserve_ms
        self._trimmed: dict[ConsumeQueue, int] = {}  # files before this position are gone

    async def by_reserve_time(self) -> int:
        """Move the minima of topics that keep messages for a time of their own; returns how many queues moved.

        Raises:
            OSError: the disk failed; nothing moved.
        """
        now, found = self._clock.now_ms(), self._queues.by_name.values()
        kept = {topic: self._reserve_ms(topic) for topic in {queue.topic for queue in found}}
        due = [(span, now - kept[span.queue.topic]) for span in spans_of([q for q in found if kept[q.topic] >= 0])]
        moved = await self._beside.follow_time(now, self._reserve_ms)
        if not due:
            return moved
        minima = await self._workers.run(_first_kept, due, LogSnapshot(self._log))
        for (span, _), minimum in zip(due, minima, strict=True):
            if minimum > span.queue.min_offset:
                span.queue.min_offset, span.queue.oldest = minimum, -1
                moved += 1
        return moved

    async def trim(self, pause: Pause) -> int:
        """Delete queue files below the minima; returns how many.

        Raises:
            OSError: one cannot be deleted; the next call tries it again.
        """
        file_bytes = self._queues.queue_files.file_bytes
        deleted, trimmed = 0, {}
        for number, queue in enumerate(list(self._queues.by_name.values())):
            if number % TURN_QUEUES == TURN_QUEUES - 1:
                await self._clock.sleep(0)  # let others have a turn
            last = max(queue.written_offset - 1, 0) * ENTRY_BYTES
            keep = min(queue.min_offset * ENTRY_BYTES, last) // file_bytes * file_bytes
            trimmed[queue] = keep
            if queue.empty or keep <= self._trimmed.get(queue, 0):
                continue
            for start in await self._workers.run(starts_before, self._files, queue.folder, keep):
                if deleted and not await pause("deleteConsumeQueueFilesInterval"):
                    return deleted
                if queue.dropped:
                    break
                self._queues.queue_files.forget_file(queue, start)
                await self._workers.run(delete_file, self._files, queue.folder, start)
                deleted += 1
        self._trimmed = trimmed
        return await self._beside.trim(pause, deleted)

    async def remove_expired(self) -> int:
        """Remove queues whose messages have all left the log; system topics keep theirs. Returns how many went.

        Raises:
            OSError: the disk failed; those before it are gone.
        """
        idle = [
            queue
            for queue in self._queues.by_name.values()
            if queue.min_offset == queue.written_offset == queue.next_offset and not names.is_system_topic(queue.topic)
        ]
        removed = 0
        for span in await self._workers.run(_expired, spans_of(idle), self._log.min_offset):
            queue = span.queue
            if not queue.dropped and queue.next_offset == span.high:
                self._dropping.remove(queue)
                removed += 1
        return removed


def _first_kept(due: Sequence[tuple[QueueSpan, int]], log: LogSnapshot) -> list[int]:
    return [first_since(span, time_ms, log) for span, time_ms in due]


def _expired(spans: Sequence[QueueSpan], log_min: int) -> list[QueueSpan]:
    """Runs in a thread."""
    return [span for span in spans if is_expired(span, log_min)]
