"""Sets the ends of all queues after the log was read, whether or not records were requeued in them.

A queue without a record in the part of the log that was read ends where the checkpoint, or a search, says. Its newest
entry and the following place are checked with one read: if the entry is missing, the whole log is read; if its record
is no longer in the log, the entry is cut off.

Anything after the end of a queue that belongs to no record is copied to quarantine and zeroed. It remains if the log
lost data that the queues did not, and a Java broker, which looks for the end of a queue in its files, would take it for
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from gantrymq.plugin.model import is_light
from gantrymq.plugin.world import FileReader
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.log_repair import Quarantine
from gantrymq_storage_mmap.recovery.replay import Replay
from gantrymq_storage_mmap.recovery.requeue import BatchQueueRequeue, ConsumeQueueRequeue, LogHoles
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.blank import without_zeros
from gantrymq_store_files.ext_unit import MIN_UNIT_BYTES
from gantrymq_store_files.queue_entry import ENTRY_BYTES, is_pre_blank

_BEYOND_END_BYTES = 64 * 1024  # read after the end of ext files


@attrs.frozen(eq=False)
class QueueEnds:
    """Sets the ends of the queues of one table. Blocks."""

    _files: FileReader
    _queues: QueueTable
    _holes: LogHoles
    _quarantine: Quarantine  # receives the removed bytes
    _note: Callable[[str], None]  # called with one sentence per cut
    _light: bool  # whether records were requeued in light queues

    def check_unlisted(self, replay: Replay, start: int, log_end: int) -> Iterator[str]:
        """Check the queues without a record, and yield each, as "topic/id", whose newest entry is missing.

        Args:
            replay: receives the queues whose newest entries have no record.
            start: log offset from which records were read.
            log_end: log offset after the last record.
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
        """Return the newest entry, and the following one in the same file or at the start of the next."""
        end, file_bytes = queue.end, queue.files.file_bytes
        if not end:
            return None, None
        at = (end - ENTRY_BYTES) % file_bytes
        data = queue.read_files(end - ENTRY_BYTES, 2 * ENTRY_BYTES)
        if at + ENTRY_BYTES == file_bytes:
            data += queue.read_files(end, ENTRY_BYTES)
        return entry_of(data), entry_of(data[ENTRY_BYTES:])

    def settle(self, replay: Replay, log_min: int, *, minima: bool) -> Iterator[str]:
        """Set the offsets of every queue, and yield a sentence for each that lost messages.

        Args:
            replay: the replay of the records.
            log_min: start of the log.
            minima: whether the start of the log changed since the minima were saved.
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
            requeue = replay.requeues.pop(name)  # freeing all at once would block the event loop
            ext = requeue.queue.ext if isinstance(requeue, ConsumeQueueRequeue) else None
            if requeue.has_leftovers:
                self._cut(requeue.queue)
            if ext is not None and without_zeros(ext.read_files(ext.end, _BEYOND_END_BYTES)):
                self._cut(ext)

    def _cut(self, segments: SegmentedFile) -> None:
        """Quarantine and zero every byte after the end."""
        file_bytes = segments.files.file_bytes
        unit_bytes = BATCH_ENTRY_BYTES if isinstance(segments, BatchQueue) else ENTRY_BYTES
        if isinstance(segments, ExtQueue):
            unit_bytes = MIN_UNIT_BYTES
        for start in segments.starts():
            if start + file_bytes <= segments.end or (file := segments.files.existing(segments, start)) is None:
                continue
            if cut := self._quarantine.cut(file, max(segments.end - start, 0), file_bytes, start):
                self._note(
                    f"queue {segments.topic}/{segments.queue_id}: {-(-cut // unit_bytes)} entries without a record "
                    f"were kept in {self._quarantine.kept[-1]}"
                )

    def restore_offsets(self, saved: SavedPoint, deleted: Callable[[str], object]) -> None:
        """Let queues continue at the offsets in *saved* if the log has lost their last messages."""
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
