"""Cut and replay: queues are cut at the place from which the log is read, and the records from there on listed again.

Everything before that place is durable, entries too; so a queue that no record touches is right. One that is touched is
cut at its first entry at or behind the place, and its entries wait in its tail, as if they were published just now:
readers find them there, and the next checkpoint has them written and durable. What stood in the files is written over,
whether it was right or not: a page may be in the cache and nowhere else.

What the log alone cannot tell is told by entries that were there: which queue offsets messages had that are lost (see
`requeue`).

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java, ConsumeQueue.java (multiDispatchLmqQueue).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from gantrymq.formats.record import MIN_RECORD_BYTES
from gantrymq.interfaces import DispatchEntry
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.model.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.pending_entries import MOST_KEPT_BYTES
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.requeue import BatchQueueRequeue, ConsumeQueueRequeue, LogHoles
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

__all__ = ["BatchTopic", "Replay"]

_pack = ENTRY.pack
_UNUSUAL = TRANSACTION_PREPARED | INNER_BATCH


class BatchTopic(Exception):
    """A record shows that this topic has batch queues, which nothing said before. Recovery handles it."""


@attrs.define(eq=False)
class Replay:
    """One walk over the log's records, listed in their queues."""

    _queues: QueueTable  # as they were loaded
    _dropped: DroppedTopics  # records of deleted topics
    _holes: LogHoles  # damaged places, in log order; grows while records are shown
    _start: int  # log offset at which queues are cut; records before it are not shown
    _partial: bool = attrs.field(kw_only=True)  # the log has records before the start
    _light: bool = attrs.field(kw_only=True)  # whether light queues are listed
    # writes and syncs what waits in the tails, when that has become much
    _make_durable: Callable[[], object] = attrs.field(kw_only=True)
    misplaced: list[str] = attrs.field(factory=list, init=False)  # a sentence for each record that got no entry
    skipped_topics: set[str] = attrs.field(factory=set, init=False)  # with records that no queue can list
    requeues: dict[tuple[str, int], ConsumeQueueRequeue | BatchQueueRequeue] = attrs.field(factory=dict, init=False)
    listed: int = attrs.field(default=0, init=False)  # entries
    # whose newest entry this walk brought, without ext units
    _plain: dict[tuple[str, int], ConsumeQueue] = attrs.field(factory=dict, init=False)

    def see(self, entries: Sequence[DispatchEntry]) -> None:
        """Take the next records of the log.

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
                self._see_unusual(entry)
                continue
            queue.tail += _pack(log_offset, size, tags_code)
            queue.unwritten += ENTRY_BYTES
            queue.end += ENTRY_BYTES
            grown += ENTRY_BYTES
        self.listed += grown // ENTRY_BYTES
        pending.grown(grown)
        if pending.kept_bytes > MOST_KEPT_BYTES:
            self._make_durable()

    def _see_unusual(self, entry: DispatchEntry) -> None:
        """The first record of a queue, one that does not follow the one before, or one of another kind."""
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
            # The log has room for few entries before it: an offset that no log could have brought about is a client's
            # invention from a time when light queues were off, and counts for nothing.
            most = log_offset // MIN_RECORD_BYTES
            for name, queue_offset in entry.light_places:
                if queue_offset <= most and not self._dropped.holds(name, log_offset):
                    light = self._requeue(name, LIGHT_QUEUE_ID)
                    if light is not None:
                        self._list(
                            light, entry._replace(topic=name, queue_id=LIGHT_QUEUE_ID, queue_offset=queue_offset)
                        )

    def _list(self, requeue: ConsumeQueueRequeue | BatchQueueRequeue, entry: DispatchEntry) -> None:
        problem = requeue.see(entry)
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
        """That of a queue, which is cut when it is met first; None where there cannot be such a queue."""
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
