"""Table of all queues of the store.

Ordinary queues are in ``consumequeue/<topic>/<queue id>/<20 digits>``. ``consumequeue_ext`` (ext files of ordinary
queues) and ``batchconsumequeue`` (queues of topics with ``queue.type=BatchCQ``) have the same structure.

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java (loadConsumeQueues, destroy).
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gantrymq.errors import StoreLayoutError
from gantrymq.plugin.formats import BATCH_QUEUES, EXT_QUEUES, QUEUES, topic_part
from gantrymq.plugin.interfaces import BitMaps
from gantrymq.plugin.model import Queue, is_light
from gantrymq.plugin.world import Files
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, topic_problem
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.pending_entries import PendingEntries
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.file_names import file_start


class QueueTable:
    """Queues by topic and id."""

    def __init__(self, files: Files, options: Options, bit_maps: BitMaps | None = None) -> None:
        """Create an empty table. *bit_maps*: compute the bits of new messages for ext files."""
        self.by_name: dict[tuple[str, int], ConsumeQueue] = {}  # ordinary queues, including light queues
        self.batch: dict[tuple[str, int], BatchQueue] = {}
        self.batch_topics: set[str] = set()
        self.light_count = 0  # light queues in `by_name`
        self.pending = PendingEntries()
        self.by_topic: dict[str, list[ConsumeQueue | BatchQueue]] = {}
        root, most_open = options.root, options.max_open_queue_files
        few = max(1, most_open // 4)
        self.queue_files = QueueFiles(files, root / QUEUES, options.queue_file_bytes, most_open)
        self.batch_files = QueueFiles(files, root / BATCH_QUEUES, options.batch_file_bytes, few)
        self.ext_files = QueueFiles(files, root / EXT_QUEUES, options.ext_file_bytes, few)
        self.ext_topics: set[str] = set()  # topics with ext files when the store was opened
        self._ext_units = options.ext_units
        self._bit_maps: BitMaps = {} if bit_maps is None else bit_maps
        self._files = files

    @property
    def file_tables(self) -> tuple[QueueFiles, QueueFiles, QueueFiles]:
        """Files of ordinary queues, of batch queues, and ext files."""
        return self.queue_files, self.batch_files, self.ext_files

    @property
    def file_bytes(self) -> tuple[int, int, int]:
        """File sizes of ordinary queues, of batch queues, and of ext files."""
        return self.queue_files.file_bytes, self.batch_files.file_bytes, self.ext_files.file_bytes

    def get(self, queue: tuple[str, int]) -> ConsumeQueue | BatchQueue | None:
        """Return the queue, None if it never got a message."""
        return self.by_name.get(queue) or self.batch.get(queue)

    def make(self, topic: str, queue_id: int) -> ConsumeQueue | str:
        """Return the queue, created in memory if it is new; a sentence if its names are not allowed."""
        queue = self.by_name.get((topic, queue_id))
        if queue is None:
            if topic in self.batch_topics:
                return (
                    f"topic {topic} has batch queues in this store, but not among the broker's topics; create it with: "
                    f"gantrymq topic create -t {quote(topic)} -a +queue.type=BatchCQ"
                )
            beside = self.by_topic.get(topic)
            if not beside or not 0 <= queue_id <= 0x7FFFFFFF:
                problem = topic_problem(topic, queue_id)
                if problem is not None:
                    return problem
            part = (beside[0].magic, beside[0].named) if beside and isinstance(beside[0], ConsumeQueue) else None
            queue = ConsumeQueue(self.queue_files, topic, queue_id, part or topic_part(topic))
            if (self._ext_units or topic in self.ext_topics) and not is_light(topic):
                ext = ExtQueue(self.ext_files, topic, queue_id, writes=self._ext_units, bit_maps=self._bit_maps)
                try:
                    self.file_starts(ext, "mappedFileSizeConsumeQueueExt")
                except StoreLayoutError as problem:
                    return str(problem)
                queue.ext = ext
            self.by_name[topic, queue_id] = queue
            self.by_topic.setdefault(topic, []).append(queue)
            self.light_count += is_light(topic)
        return queue

    def make_batch(self, topic: str, queue_id: int) -> BatchQueue | str:
        """Return the batch queue, created in memory if it is new; a sentence if its names are not allowed."""
        queue = self.batch.get((topic, queue_id))
        if queue is None:
            if topic not in self.batch_topics and topic in self.by_topic:
                return f"topic {topic} has ordinary queues, so it cannot get batch queues (queue.type=BatchCQ)"
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return problem
            self.batch_topics.add(topic)
            queue = BatchQueue(self.batch_files, topic, queue_id)
            self.batch[topic, queue_id] = queue
            self.by_topic.setdefault(topic, []).append(queue)
        return queue

    def convert_to_batch(self, topic: str) -> None:
        """Convert *topic* to batch queues, because a record in the log shows that it has them.

        Raises:
            StoreLayoutError: the topic has files of ordinary queues.
        """
        for queue in self.by_topic.get(topic, ()):
            if isinstance(queue, ConsumeQueue) and not queue.empty:
                raise StoreLayoutError(
                    f"{queue.folder.parent} holds ordinary queues, but the log holds inner batches of topic {topic} "
                    "(queue.type=BatchCQ); move that folder away to have its queues rebuilt"
                )
        self.forget(topic)
        self.batch_topics.add(topic)

    def names(self) -> list[Queue]:
        """Return every queue that has or had a message, sorted."""
        found = [Queue(*name) for name, queue in self.by_name.items() if queue.next_offset or not queue.empty]
        return sorted(found + [Queue(*name) for name, queue in self.batch.items() if queue.next_offset])

    def segmented_files(self) -> Iterator[SegmentedFile]:
        """Iterate over the ordinary queues, their ext files, and the batch queues."""
        for queue in self.by_name.values():
            yield queue
            if queue.ext is not None:
                yield queue.ext
        yield from self.batch.values()

    def forget(self, topic: str) -> bool:
        """Remove every queue of *topic* from the table; return whether there was one. The files stay."""
        queues = self.by_topic.pop(topic, [])
        for queue in queues:
            self._take_out(queue)
        self.batch_topics.discard(topic)
        return bool(queues)

    def forget_queue(self, queue: ConsumeQueue) -> None:
        """Remove one queue from the table."""
        left = self.by_topic[queue.topic]
        left.remove(queue)
        if not left:
            del self.by_topic[queue.topic]
        self._take_out(queue)

    def _take_out(self, queue: ConsumeQueue | BatchQueue) -> None:
        if isinstance(queue, BatchQueue):
            del self.batch[queue.topic, queue.queue_id]
        else:
            del self.by_name[queue.topic, queue.queue_id]
            self.light_count -= is_light(queue.topic)
        for segments in (queue, queue.ext) if isinstance(queue, ConsumeQueue) and queue.ext is not None else (queue,):
            segments.dropped = True
            self.pending.forget(segments)
            segments.files.forget(segments)

    def close(self) -> None:
        """Close every file."""
        for files in self.file_tables:
            files.close()

    def file_starts(self, segments: SegmentedFile, key: str) -> list[int]:
        """Return the positions of the files of *segments* in order; remove empty files, whose length was not durable.

        Raises:
            StoreLayoutError: a file does not have the size that the setting *key* gives.
        """
        starts: list[int] = []
        folder, file_bytes = segments.folder, segments.files.file_bytes
        for name in self._files.list(folder):
            start = file_start(name)
            stat = self._files.stat(folder / name)
            if start is None or stat is None or stat.is_dir:
                continue
            if stat.size == 0:
                self._files.remove(folder / name)
                continue
            if stat.size != file_bytes or start % file_bytes:
                raise StoreLayoutError(
                    f"{folder / name} has {stat.size} bytes, but {key} is {file_bytes}: "
                    f"set {key}={stat.size} for this store"
                )
            starts.append(start)
        return starts
