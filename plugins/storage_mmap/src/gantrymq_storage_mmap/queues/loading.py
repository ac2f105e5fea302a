"""Queues when a store is opened: by what the checkpoint says of their ends, or, without it, by a search in their files.

With a checkpoint of ours no file is looked at here, however many queues there are: recovery checks the ends later
(`recovery.queue_ends`). The search, for stores that a Java broker had, opens each queue's files once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import StoreLayoutError
from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.world import Files
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.queues.topic_types import topic_types

__all__ = ["QueueLoader"]


class _Place(NamedTuple):
    """Where a record lies."""

    log_offset: int
    size: int


class QueueLoader:
    """Fills a table of queues. Blocks; runs in a thread while nothing else uses the store."""

    def __init__(
        self, files: Files, root: Path, queues: QueueTable, dropped: DroppedTopics, move_aside: Callable[[str], object]
    ) -> None:
        """*move_aside* takes the name of a topic whose folders are left over from a deletion."""
        self._files = files
        self._root = root
        self._queues = queues
        self._dropped = dropped
        self._move_aside = move_aside
        self.newest = _Place(-1, 0)  # what the newest entry of all names; known after a search only

    def load(self, saved: SavedPoint | None) -> None:
        """Find the queues and the end of each.

        Raises:
            StoreLayoutError: files of another size, or a RocksDB folder; says which and what fits.
        """
        types = topic_types(self._files, self._root)
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
                self._move_aside(topic)  # deleted since; what it has got anew is behind the checkpoint
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
        for topic in topics:
            for queue_id in self._files.list(self._queues.queue_files.folder / topic):
                if queue_id.isdecimal():
                    self._search_queue(topic, int(queue_id))
        for topic in batch_topics:
            for queue_id in self._files.list(self._queues.batch_files.folder / topic):
                if queue_id.isdecimal():
                    self._search_batch(topic, int(queue_id))

    def _search_queue(self, topic: str, queue_id: int) -> None:
        queue = self._queues.make(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._queues.queue_files.folder / topic / str(queue_id)}: {queue}")
        starts = self._queues.file_starts(queue, "mappedFileSizeConsumeQueue")
        if not starts:
            return
        queue.empty = False
        per_file = queue.files.file_bytes // ENTRY_BYTES
        low = end = starts[0] // ENTRY_BYTES
        for start in reversed(starts):
            first = start // ENTRY_BYTES
            if written := _count_written(queue, first, per_file):
                end = first + written
                break
        last = queue.entry(end - 1) if end > low else None
        if last is not None and last[0] < self._dropped.before(topic):  # its move was cut short
            self._queues.forget_queue(queue)
            self._move_aside(f"{topic}/{queue_id}")
            return
        queue.begin_at(end)
        queue.min_offset = low
        if last is not None:
            self.newest = max(self.newest, _Place(*last[:2]))
            if queue.ext is not None:
                queue.ext.cut(queue.ext.end_behind(last[2]))

    def _search_batch(self, topic: str, queue_id: int) -> None:
        queue = self._queues.make_batch(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._queues.batch_files.folder / topic / str(queue_id)}: {queue}")
        starts = self._queues.file_starts(queue, "mapperFileSizeBatchConsumeQueue")
        if not starts:
            return
        per_file = queue.files.file_bytes // BATCH_ENTRY_BYTES
        first = end = starts[0] // BATCH_ENTRY_BYTES
        for start in reversed(starts):
            number = start // BATCH_ENTRY_BYTES
            if written := _count_written(queue, number, per_file):
                end = number + written
                break
        queue.settle(first, end)
        last = queue.entry(end - 1) if end > first else None
        if last is not None:
            self.newest = max(self.newest, _Place(last.log_offset, last.size))


def _knows(saved: SavedPoint, topic: str) -> bool:
    return topic in saved.queues or topic in saved.batch_queues


def _count_written(queue: ConsumeQueue | BatchQueue, first: int, per_file: int) -> int:
    """How many entries of one file were written, by bisection: written ones come first, then zeros."""
    return _first(0, per_file, lambda n: queue.entry(first + n) is None)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number of ``[low, high)`` that *holds*, as all behind it do; *high* when none does."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
