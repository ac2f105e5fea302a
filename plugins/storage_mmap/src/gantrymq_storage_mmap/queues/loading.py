"""Loading the queues of a store: from the ends saved in the checkpoint, or by searching the queue files.

With our checkpoint no queue file is read here, however many queues there are; recovery checks the ends later
(`recovery.queue_ends`). The search is for stores that a Java broker used; it opens the files of each queue once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from gantrymq.errors import StoreLayoutError
from gantrymq.plugin.config_files import read_topics_file
from gantrymq.plugin.world import FileReader
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.segmented_file import first_false
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.blank import without_zeros
from gantrymq_store_files.queue_entry import ENTRY_BYTES

_LOOK_ENTRIES = 256  # entries of a file read before its hole: more than a page holds


@attrs.define(eq=False)
class QueueLoader:
    """Fills a table of queues. Blocks; runs in a thread while nothing else uses the store."""

    _files: FileReader
    _root: Path
    _queues: QueueTable
    _dropped: DroppedTopics
    _move_aside: Callable[[str], object]  # moves the folders of a topic left over from a deletion
    # log offset and size of the record of the newest queue entry; known after a search only
    newest: tuple[int, int] = attrs.field(default=(-1, 0), init=False)

    def load(self, saved: SavedPoint | None) -> None:
        """Find the queues and the end of each.

        Raises:
            StoreLayoutError: files of another size or a RocksDB folder; the message names them and the required
                setting.
        """
        # Records do not tell which topics have batch queues (a message that was sent alone looks like any other), but
        # the broker's topics.json does, as for a Java broker. If the topic is not listed there, the topic's folder or a
        # record with an inner batch tells. Source: store/.../queue/ConsumeQueueStore.java (queueTypeShouldBe).
        stored = read_topics_file(self._files, self._root)
        types = {name: topic.has_batch_queues for name, topic in stored.topics.items()} if stored is not None else {}
        queues = self._queues
        queues.batch_topics = {name for name, batch in types.items() if batch}
        topics = self._files.list(queues.queue_files.folder)
        batch_topics = self._files.list(queues.batch_files.folder)
        if "CURRENT" in topics or any(name.endswith(".sst") for name in topics):
            raise StoreLayoutError(
                f"{queues.queue_files.folder} is a RocksDB folder (storeType=defaultRocksDB); this version reads queue "
                "files only, move the folder away to have them rebuilt from the log"
            )
        for topic in batch_topics:
            if types.get(topic) is False:
                raise StoreLayoutError(
                    f"{queues.batch_files.folder / topic} holds batch queues, but topics.json does not give topic "
                    f"{topic} the attribute queue.type=BatchCQ; put the attribute back, or move that folder away to "
                    "have ordinary queues built from the log"
                )
        queues.batch_topics.update(batch_topics)
        queues.ext_topics = set(self._files.list(queues.ext_files.folder))
        if saved is not None:
            self._take(saved, {*topics, *batch_topics})
        else:
            self._search(topics, batch_topics)

    # --- by the checkpoint ------------------------------------------------------------------------------------------

    def _take(self, saved: SavedPoint, there: set[str]) -> None:
        for topic in sorted(there):
            dropped = self._dropped.before(topic)
            if dropped >= max(saved.offset, 1) or (dropped and not _knows(saved, topic)):
                self._move_aside(topic)  # deleted since; new messages of the topic are after the checkpoint
        for topic, ids in saved.queues.items():
            if self._dropped.before(topic) < max(saved.offset, 1):
                for queue_id, (low, end) in ids.items():
                    queue = self._queues.make(topic, int(queue_id))
                    if isinstance(queue, str):
                        raise StoreLayoutError(f"{self._queues.queue_files.folder / topic / queue_id}: {queue}")
                    queue.begin_at(end)
                    queue.min_offset = low
                    queue.empty = False
                    if queue.ext is not None:
                        queue.ext.cut(saved.ext.get(topic, {}).get(queue_id, 0))
        for topic, ids in saved.batch_queues.items():
            if self._dropped.before(topic) < max(saved.offset, 1):
                for queue_id, (first, number_end) in ids.items():
                    batch = self._queues.make_batch(topic, int(queue_id))
                    if isinstance(batch, str):
                        raise StoreLayoutError(f"{self._queues.batch_files.folder / topic / queue_id}: {batch}")
                    batch.settle(first, number_end)

    # --- by a search ------------------------------------------------------------------------------------------------

    def _search(self, topics: list[str], batch_topics: list[str]) -> None:
        for found, folder, search in (
            (topics, self._queues.queue_files.folder, self._search_queue),
            (batch_topics, self._queues.batch_files.folder, self._search_batch),
        ):
            for topic in found:
                for queue_id in self._files.list(folder / topic):
                    if queue_id.isdecimal():
                        search(topic, int(queue_id))

    def _search_queue(self, topic: str, queue_id: int) -> None:
        queue = self._queues.make(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._queues.queue_files.folder / topic / str(queue_id)}: {queue}")
        starts = self._queues.file_starts(queue, "mappedFileSizeConsumeQueue")
        if not starts:
            return
        queue.empty = False
        low, end = starts[0] // ENTRY_BYTES, _written_end(queue, starts, ENTRY_BYTES)
        last = queue.entry(end - 1) if end > low else None
        if last is not None and last[0] < self._dropped.before(topic):  # moving it away was interrupted
            self._queues.forget_queue(queue)
            self._move_aside(f"{topic}/{queue_id}")
            return
        queue.begin_at(end)
        queue.min_offset = low
        if last is not None:
            self.newest = max(self.newest, last[:2])
            if queue.ext is not None:
                queue.ext.cut(queue.ext.end_after(last[2]))

    def _search_batch(self, topic: str, queue_id: int) -> None:
        queue = self._queues.make_batch(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._queues.batch_files.folder / topic / str(queue_id)}: {queue}")
        starts = self._queues.file_starts(queue, "mapperFileSizeBatchConsumeQueue")
        if not starts:
            return
        first, end = starts[0] // BATCH_ENTRY_BYTES, _written_end(queue, starts, BATCH_ENTRY_BYTES)
        queue.settle(first, end)
        last = queue.entry(end - 1) if end > first else None
        if last is not None:
            self.newest = max(self.newest, last[:2])


def _knows(saved: SavedPoint, topic: str) -> bool:
    return topic in saved.queues or topic in saved.batch_queues


def _written_end(queue: ConsumeQueue | BatchQueue, starts: list[int], unit: int) -> int:
    """Return the number after the last entry (of *unit* bytes) that was written into the files at *starts*."""
    for start in reversed(starts):
        if written := _count_written(queue, start // unit, unit):
            return start // unit + written
    return starts[0] // unit


def _count_written(queue: ConsumeQueue | BatchQueue, first: int, unit: int) -> int:
    """Return how many entries of one file were written: written ones come first, then zeros, mostly a hole."""
    per_file = queue.files.file_bytes // unit
    file = queue.files.existing(queue, first * unit)
    ranges = file.written(0, per_file * unit) if file is not None else []
    if file is None or not ranges:
        return 0
    end = min(-(-ranges[-1][1] // unit), per_file)
    low = max(0, end - _LOOK_ENTRIES)
    data = without_zeros(file.pread((end - low) * unit, low * unit))
    return low - (-len(data) // unit) if data else first_false(lambda n: queue.entry(first + n) is not None, 0, low)
