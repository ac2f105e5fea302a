"""The ends of all queues once the log was read: of those that records were listed in, and of those without any.

A queue without a record in the part of the log that was read ends where the checkpoint, or a search, says. Its newest
entry and the place behind are looked at, in one read: an entry that is missing has the whole log read; one whose record
is not in the log any more is cut off.

What stands behind an end and belongs to no record is kept aside and zeroed. It is left when the log lost what its
queues did not, and a Java broker, which looks for the end of a queue in its files, would take it for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from gantrymq.model.light_queues import is_light
from gantrymq.world import Files
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.quarantine import Quarantine
from gantrymq_storage_mmap.recovery.replay import Replay
from gantrymq_storage_mmap.recovery.requeue import BatchQueueRequeue, ConsumeQueueRequeue, LogHoles
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.ext_unit import MIN_UNIT_BYTES
from gantrymq_store_files.queue_entry import ENTRY_BYTES, is_pre_blank
from gantrymq_store_files.zeros import without_zeros

__all__ = ["QueueEnds"]

LOOK_BEHIND_BYTES = 64 * 1024  # of ext files


@attrs.frozen(eq=False)
class QueueEnds:
    """Settles the queues of one table. Blocks."""

    _files: Files
    _queues: QueueTable
    _holes: LogHoles
    _aside: Quarantine  # takes what is cut
    _note: Callable[[str], None]  # is told each cut in a sentence
    _light: bool  # whether records were listed in light queues

    def unlisted(self, replay: Replay, start: int, log_end: int) -> Iterator[str]:
        """Look at the queues without a record, and yield each, as "topic/id", whose newest entry is missing.

        Args:
            replay: gets those whose newest entries have no record.
            start: log offset from which records were shown.
            log_end: behind the last record.
        """
        pending, holes, requeues = self._queues.pending, self._holes, replay.requeues
        for name, queue in list(self._queues.by_name.items()):
            if name in requeues:
                continue
            at = log_end if is_light(queue.topic) and not self._light else start
            last, following = self._around_end(queue)
            if last is None and queue.max_offset > queue.min_offset:
                queue.empty = not self._files.list(queue.folder)
                yield f"{queue.topic}/{queue.queue_id}"
            elif (last is not None and last[0] >= at and not is_pre_blank(*last[:2])) or (
                following is not None and holes.hold(following[0])
            ):
                requeues[name] = ConsumeQueueRequeue(queue, pending, holes, at, partial=False)
            elif following is not None:
                self._cut(queue)
        for name, batch in list(self._queues.batch.items()):
            if name not in requeues:
                if batch.number_end > batch.first and batch.entry(batch.number_end - 1) is None:
                    yield f"{batch.topic}/{batch.queue_id}"
                else:
                    requeues[name] = BatchQueueRequeue(batch, pending, holes, start, partial=False)

    def _around_end(self, queue: ConsumeQueue) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
        """The newest entry, and what stands behind it in the same file, or at the start of the next."""
        end, file_bytes = queue.end, queue.files.file_bytes
        if not end:
            return None, None
        at = (end - ENTRY_BYTES) % file_bytes
        data = queue.look(end - ENTRY_BYTES, 2 * ENTRY_BYTES)
        if at + ENTRY_BYTES == file_bytes:
            data += queue.look(end, ENTRY_BYTES)
        return entry_of(data), entry_of(data[ENTRY_BYTES:])

    def settle(self, replay: Replay, log_min: int, *, minima: bool) -> Iterator[str]:
        """Set every queue's offsets, and yield a sentence for each that lost messages.

        Args:
            replay: that was shown the records.
            log_min: where the log begins.
            minima: whether it began elsewhere when the minima were noted.
        """
        for requeue in replay.requeues.values():
            requeue.finish()
            if requeue.lost:
                queue = requeue.queue
                yield f"queue {queue.topic}/{queue.queue_id}: {requeue.lost} messages are not in the log"
        if minima:
            for queue in self._queues.by_name.values():
                queue.min_offset = min(queue.first_from(queue.min_offset, log_min), queue.max_offset)
            for batch in self._queues.batch.values():
                batch.begin_at(batch.last_where(lambda entry: entry.log_offset < log_min) + 1)
        for name in list(replay.requeues):
            requeue = replay.requeues.pop(name)  # freed all at once they would hold the event loop up
            ext = requeue.queue.ext if isinstance(requeue, ConsumeQueueRequeue) else None
            if requeue.leaves:
                self._cut(requeue.queue)
            if ext is not None and without_zeros(ext.look(ext.end, LOOK_BEHIND_BYTES)):
                self._cut(ext)

    def _cut(self, segments: SegmentedFile) -> None:
        """Keep and zero every byte behind the end."""
        file_bytes = segments.files.file_bytes
        unit_bytes = BATCH_ENTRY_BYTES if isinstance(segments, BatchQueue) else ENTRY_BYTES
        if isinstance(segments, ExtQueue):
            unit_bytes = MIN_UNIT_BYTES
        for start in segments.starts():
            if start + file_bytes <= segments.end or (file := segments.files.existing(segments, start)) is None:
                continue
            if cut := self._aside.cut(file, max(segments.end - start, 0), file_bytes, start):
                self._note(
                    f"queue {segments.topic}/{segments.queue_id}: {-(-cut // unit_bytes)} entries without a record "
                    f"were kept in {self._aside.kept[-1]}"
                )

    def keep_numbers(self, saved: SavedPoint, deleted: Callable[[str], object]) -> None:
        """Let queues go on at the numbers that *saved* knows, where the log has nothing left of their last messages."""
        for topic, ids in saved.queues.items():
            for queue_id, (_, end) in ids.items():
                queue = self._queues.by_name.get((topic, int(queue_id)))
                if queue is None or queue.max_offset >= end or deleted(topic):
                    continue
                if queue.max_offset > queue.min_offset:
                    filling = queue.entries(queue.max_offset - 1, 1) * (end - queue.max_offset)
                    queue.append(filling)
                    self._queues.pending.appended(queue, len(filling))
                    queue.next_offset = queue.max_offset
                else:
                    self._queues.pending.forget(queue)
                    queue.begin_at(end)
