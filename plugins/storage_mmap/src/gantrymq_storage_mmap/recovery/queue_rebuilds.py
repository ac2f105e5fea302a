"""Recovery's records, handed to the queues that list them: an ordinary queue or a batch queue, and light queues.

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java, ConsumeQueue.java (multiDispatchLmqQueue).
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq.formats.record import MIN_RECORD_BYTES, RecordView
from gantrymq.model import properties as props
from gantrymq.model.light_queues import LIGHT_QUEUE_ID, is_light, light_places
from gantrymq.model.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq_storage_mmap.log.scan import Hole
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.batch_rebuild import BatchRebuild, first_batch_entry_from
from gantrymq_storage_mmap.recovery.queue_rebuild import QueueRebuild, first_entry_from

__all__ = ["BatchTopic", "QueueRebuilds"]

_LISTED = props.INNER_MULTI_QUEUE_OFFSET.encode()


class BatchTopic(Exception):
    """A record shows that a topic has batch queues, which nothing said before. Recovery handles it."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


class QueueRebuilds:
    """One scan's rebuilds, of every queue."""

    def __init__(self, queues: QueueTable, options: Options, start: int, *, partial: bool) -> None:
        """*start*: where the scan begins; *partial*: the log has records before that."""
        self.holes: list[Hole] = []  # damaged places, in log order; grows while records are fed
        self.misplaced: list[str] = []  # a sentence for each record that got no entry
        self.skipped_topics: set[str] = set()  # with records that no queue can list
        self._queues = queues
        self._options = options
        self._start = start
        self._partial = partial
        self._by_name: dict[tuple[str, int], QueueRebuild | BatchRebuild] = {}

    @property
    def rebuilt(self) -> int:
        """How many entries were written."""
        return sum(rebuild.rebuilt for rebuild in self._by_name.values())

    def see(self, record: RecordView) -> None:
        """Take the next record of the log.

        Raises:
            EntriesMissing: a queue lacks entries from before the scan's start.
            BatchTopic: see there.
        """
        topic, log_offset = record.topic, record.log_offset
        dropped, levels = self._queues.dropped.holds, self._options.delay_levels_ms
        if record.sys_flag & TRANSACTION_PREPARED or dropped(topic, log_offset):
            return
        if record.sys_flag & INNER_BATCH and topic not in self._queues.batch_topics:
            raise BatchTopic(topic)
        rebuild = self._by_name.get((topic, record.queue_id)) or self._begin(topic, record.queue_id)
        if rebuild is None:
            return
        self._note(record, topic, record.queue_id, rebuild.see(record, levels))
        if self._options.light_queues and isinstance(rebuild, QueueRebuild):
            for name, queue_offset in places_in_light_queues(record):
                light = self._by_name.get((name, LIGHT_QUEUE_ID)) or self._begin(name, LIGHT_QUEUE_ID)
                if isinstance(light, QueueRebuild) and not dropped(name, log_offset):
                    self._note(record, name, LIGHT_QUEUE_ID, light.see_at(queue_offset, record, levels))

    def _note(self, record: RecordView, topic: str, queue_id: int, problem: str | None) -> None:
        if problem is not None:
            self.misplaced.append(
                f"the record at {record.log_offset} (topic {topic}, queue {queue_id}) is in no queue: {problem}"
            )

    def finish(self, end: int, log_min: int) -> Iterator[str]:
        """Set every queue's offsets, and yield a sentence for each that lost messages.

        Args:
            end: behind the last sound record.
            log_min: where the log begins.
        """
        for name, queue in list(self._queues.by_name.items()):
            rebuild = self._by_name.get(name)
            if rebuild is None:  # no record was scanned: entries from the scan's start on have none
                unfed = is_light(queue.topic) and not self._options.light_queues
                rebuild = QueueRebuild(queue, end if unfed else self._start, holes=self.holes)
            rebuild.finish()
            queue.min_offset = min(first_entry_from(queue, log_min), queue.max_offset)
            yield from _loss(rebuild)
        for name, batch in list(self._queues.batch.items()):
            rebuild = self._by_name.get(name) or BatchRebuild(batch, self._start, holes=self.holes)
            rebuild.finish()
            batch.begin_at(min(first_batch_entry_from(batch, log_min), batch.end))
            yield from _loss(rebuild)

    def _begin(self, topic: str, queue_id: int) -> QueueRebuild | BatchRebuild | None:
        found: QueueRebuild | BatchRebuild
        if topic in self._queues.batch_topics:
            batch = self._queues.make_batch(topic, queue_id)
            if isinstance(batch, str):
                self.skipped_topics.add(topic)
                return None
            found = BatchRebuild(batch, self._start, partial=self._partial, holes=self.holes)
        else:
            queue = self._queues.make(topic, queue_id)
            if isinstance(queue, str):
                self.skipped_topics.add(topic)
                return None
            found = QueueRebuild(queue, self._start, partial=self._partial, holes=self.holes)
        self._by_name[topic, queue_id] = found
        return found


def places_in_light_queues(record: RecordView) -> list[tuple[str, int]]:
    """Light queue and queue offset, for each light queue that lists *record*.

    The log has room for few entries before it: an offset that no log could have brought about is a client's invention
    from a time when light queues were off, and counts for nothing.
    """
    if _LISTED not in bytes(record.properties_bytes):
        return []
    most = record.log_offset // MIN_RECORD_BYTES
    return [(name, offset) for name, offset in light_places(record.topic, record.properties) if offset <= most]


def _loss(rebuild: QueueRebuild | BatchRebuild) -> Iterator[str]:
    if rebuild.lost:
        queue = rebuild.queue
        yield f"queue {queue.topic}/{queue.queue_id}: {rebuild.lost} messages are not in the log"
