"""Cut and replay: queues are cut at the place from which the log is read, and the records after it are requeued.

Everything before that place is durable, including entries; so a queue without a record after it is right. Other queues
are cut at the first entry at or after the place, and their entries wait in the tail, as if they were just published:
readers find them there, and the next checkpoint writes and syncs them. The contents of the files are overwritten even
if they were right: a page may be in the cache only.

Existing entries supply what the log does not contain: the queue offsets of lost messages (see `requeue`).

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java, ConsumeQueue.java (multiDispatchLmqQueue).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from gantrymq.plugin.formats import MIN_RECORD_BYTES
from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.model import LIGHT_QUEUE_ID
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.pending_entries import MOST_KEPT_BYTES
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.requeue import BatchQueueRequeue, ConsumeQueueRequeue, LogHoles
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

_pack = ENTRY.pack
_UNUSUAL = TRANSACTION_PREPARED | INNER_BATCH


class BatchTopic(Exception):
    """Raised when a record shows that this topic has batch queues, which was unknown. Handled by recovery."""


@attrs.define(eq=False)
class Replay:
    """One pass over the log's records that requeues them."""

    _queues: QueueTable  # as they were loaded
    _dropped: DroppedTopics  # records of deleted topics
    _holes: LogHoles  # damaged places, in log order; grows during the replay
    _start: int  # log offset at which queues are cut and reading starts
    _partial: bool = attrs.field(kw_only=True)  # the log has records before the start
    _light: bool = attrs.field(kw_only=True)  # whether records are requeued in light queues
    # writes and syncs the tails when they have become large
    _make_durable: Callable[[], object] = attrs.field(kw_only=True)
    misplaced: list[str] = attrs.field(factory=list, init=False)  # a sentence for each record that got no entry
    skipped_topics: set[str] = attrs.field(factory=set, init=False)  # topics with records that no queue can hold
    requeues: dict[tuple[str, int], ConsumeQueueRequeue | BatchQueueRequeue] = attrs.field(factory=dict, init=False)
    listed: int = attrs.field(default=0, init=False)  # number of requeued entries
    # queues without ext units whose newest entry was requeued in this pass
    _plain: dict[tuple[str, int], ConsumeQueue] = attrs.field(factory=dict, init=False)

    def process(self, entries: Sequence[DispatchEntry]) -> None:
        """Process the next records of the log.

        Raises:
            EntriesMissing: a queue lacks entries from before the start.
            BatchTopic: see there.
        """
        plain, pending, light = self._plain, self._queues.pending, self._light
        grown = 0
        for entry in entries:
            topic, queue_id, queue_offset, log_offset, size, tags_code, _, sys_flag, _, properties = entry
            queue = plain.get((topic, queue_id))
            if (
                queue is None
                or queue.end != queue_offset * ENTRY_BYTES
                or sys_flag & _UNUSUAL
                or (light and b"INNER_" in properties)
                or not queue.unwritten
            ):
                self._process_unusual(entry)
                continue
            queue.tail += _pack(log_offset, size, tags_code)
            queue.unwritten += ENTRY_BYTES
            queue.end += ENTRY_BYTES
            grown += ENTRY_BYTES
        self.listed += grown // ENTRY_BYTES
        pending.count_appended(grown)
        if pending.kept_bytes > MOST_KEPT_BYTES:
            self._make_durable()

    def _process_unusual(self, entry: DispatchEntry) -> None:
        """Process the first record of a queue, one out of order, or one of another kind."""
        topic, log_offset = entry.topic, entry.log_offset
        if entry.sys_flag & TRANSACTION_PREPARED or self._dropped.holds(topic, log_offset):
            return
        if entry.sys_flag & INNER_BATCH and topic not in self._queues.batch_topics:
            raise BatchTopic(topic)
        requeue = self._requeue(topic, entry.queue_id)
        if requeue is None:
            return
        self._list(requeue, entry)
        if self._light and isinstance(requeue, ConsumeQueueRequeue):
            # An offset larger than the number of records that fit before this one was set by a client while light
            # queues were off, and is ignored.
            most = log_offset // MIN_RECORD_BYTES
            for name, queue_offset in entry.light_queue_offsets:
                if queue_offset <= most and not self._dropped.holds(name, log_offset):
                    light = self._requeue(name, LIGHT_QUEUE_ID)
                    if light is not None:
                        self._list(
                            light, entry._replace(topic=name, queue_id=LIGHT_QUEUE_ID, queue_offset=queue_offset)
                        )

    def _list(self, requeue: ConsumeQueueRequeue | BatchQueueRequeue, entry: DispatchEntry) -> None:
        problem = requeue.process(entry)
        if problem is None:
            self.listed += 1
            if isinstance(requeue, ConsumeQueueRequeue) and requeue.queue.ext is None:
                self._plain[entry.topic, entry.queue_id] = requeue.queue
        else:
            self.misplaced.append(
                f"the record at {entry.log_offset} (topic {entry.topic}, queue {entry.queue_id}) is in no queue: "
                f"{problem}"
            )

    def _requeue(self, topic: str, queue_id: int) -> ConsumeQueueRequeue | BatchQueueRequeue | None:
        """Return the requeue of a queue, which is cut when it is first used; None if its names are not allowed."""
        found = self.requeues.get((topic, queue_id))
        if found is None:
            queues = self._queues
            make = queues.make_batch if topic in queues.batch_topics else queues.make
            queue = make(topic, queue_id)
            if isinstance(queue, str):
                self.skipped_topics.add(topic)
                return None
            if isinstance(queue, BatchQueue):
                found = BatchQueueRequeue(queue, queues.pending, self._holes, self._start, partial=self._partial)
            else:
                found = ConsumeQueueRequeue(queue, queues.pending, self._holes, self._start, partial=self._partial)
            self.requeues[topic, queue_id] = found
        return found
