"""Every queue of the store: ``consumequeue/<topic>/<queue id>/<20 digits>``.

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java (loadConsumeQueues, destroy).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq.errors import StoreLayoutError
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq.model.queue import Queue
from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.consume_queue import ConsumeQueue, topic_problem
from gantrymq_storage_mmap.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.log_file import file_start
from gantrymq_storage_mmap.queue_files import QueueFiles
from gantrymq_storage_mmap.queue_tails import QueueTails

__all__ = ["QueueTable"]

DROPPED_FOLDER = "dropped"  # beside consumequeue: queues of deleted topics until a thread has removed them


class QueueTable:
    """Queues by topic and id."""

    def __init__(self, root: Path, queue_files: QueueFiles) -> None:
        """*root*: the store's folder."""
        self.by_name: dict[tuple[str, int], ConsumeQueue] = {}
        self.batch_topics: frozenset[str] = frozenset()  # kept in batchconsumequeue/, which this version does not read
        self.queue_files = queue_files
        self.tails = QueueTails()
        self.dropped = DroppedTopics(queue_files.files, root)
        self._root = root
        self._folder = root / "consumequeue"
        self._files: Files = queue_files.files

    def load(self, log_min: int) -> None:
        """Find the queues that are there and the end of each; *log_min* is where the log starts.

        Raises:
            StoreLayoutError: files of another size, or a RocksDB folder; says which and what fits.
            StoreDamaged: the note of deleted topics cannot be read.
        """
        self.dropped.load(log_min)
        self.batch_topics = frozenset(self._files.list(self._root / "batchconsumequeue"))
        names = self._files.list(self._folder)
        if "CURRENT" in names or any(name.endswith(".sst") for name in names):
            raise StoreLayoutError(
                f"{self._folder} is a RocksDB folder (storeType=defaultRocksDB); this version reads queue files only, "
                "move the folder away to have them rebuilt from the log"
            )
        for topic in names:
            for queue_id in self._files.list(self._folder / topic):
                if queue_id.isdecimal():
                    self._load_queue(topic, int(queue_id))
        for queue in [queue for queue in self.by_name.values() if self._is_of_dropped(queue)]:
            self._move_aside(queue.folder, f"{queue.topic}.{queue.queue_id}")
            del self.by_name[queue.topic, queue.queue_id]
            self.queue_files.forget(queue.folder)

    def get(self, queue: tuple[str, int]) -> ConsumeQueue | None:
        """The queue, None when it never got a message."""
        return self.by_name.get(queue)

    def make(self, topic: str, queue_id: int) -> ConsumeQueue | str:
        """The queue, made in memory when it is new; a sentence when there cannot be one of these names."""
        queue = self.by_name.get((topic, queue_id))
        if queue is None:
            if topic in self.batch_topics:
                return (
                    f"topic {topic} has batch consume queues (queue.type=BatchCQ), which are not built in this version"
                )
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return problem
            queue = ConsumeQueue(self.queue_files, self._folder / topic / str(queue_id), topic, queue_id)
            self.by_name[topic, queue_id] = queue
        return queue

    def names(self) -> list[Queue]:
        """Every queue that has or had a message, sorted."""
        return sorted(Queue(*name) for name, queue in self.by_name.items() if queue.next_offset or not queue.empty)

    def dirty(self) -> list[ConsumeQueue]:
        """Queues with entries in files that are not durable."""
        return [queue for queue in self.by_name.values() if queue.dirty_from >= 0]

    def drop(self, topic: str, log_end: int, workers: Workers, log: Callable[[str], object]) -> None:
        """Forget the queues of *topic*; the folder is moved aside at once and removed in a thread.

        *log_end*: end of the log now; a later record of this topic starts it anew. Raises OSError.
        """
        if not any(name[0] == topic for name in self.by_name):
            return
        self.dropped.add(topic, log_end)
        for name in [name for name in self.by_name if name[0] == topic]:
            self._forget(self.by_name[name])
        if self._files.stat(self._folder / topic) is not None:
            self._move_aside(self._folder / topic, topic)
            self.remove_dropped(workers, log)

    def remove(self, queue: ConsumeQueue, workers: Workers, log: Callable[[str], object]) -> None:
        """Forget one queue that has no record in the log and nothing that waits; as `drop`. Raises OSError."""
        self._forget(queue)
        if self._files.stat(queue.folder) is not None:
            self._move_aside(queue.folder, f"{queue.topic}.{queue.queue_id}")
            if not self._files.list(queue.folder.parent):
                self._files.remove_dir(queue.folder.parent)
            self.remove_dropped(workers, log)

    def _forget(self, queue: ConsumeQueue) -> None:
        del self.by_name[queue.topic, queue.queue_id]
        queue.dropped = True
        queue.dirty_from = -1
        self.tails.forget(queue)
        self.queue_files.forget(queue.folder)

    def remove_dropped(self, workers: Workers, log: Callable[[str], object]) -> None:
        """Remove what `drop` moved aside, now or before an earlier stop."""
        aside = self._root / DROPPED_FOLDER
        if self._files.list(aside):

            def done(_: None, error: BaseException | None) -> None:
                if error is not None:
                    log(f"the queues of deleted topics in {aside} could not be removed: {error}")

            workers.submit(_remove_tree, self._files, aside, done=done)

    def _is_of_dropped(self, queue: ConsumeQueue) -> bool:
        """Whether every entry is of a deleted topic: the move was cut short, or a power cut undid it."""
        before = self.dropped.before(queue.topic)
        if not before or queue.max_offset == queue.min_offset:
            return False
        entry = queue.entry(queue.max_offset - 1)
        return entry is not None and entry[0] < before

    def _move_aside(self, folder: Path, name: str) -> None:
        """Move *folder* out of the way, for `remove_dropped`. Not synced: the note of dropped topics is."""
        aside = self._root / DROPPED_FOLDER
        taken = set(self._files.list(aside))
        number = next(n for n in range(len(taken) + 1) if f"{name}.{n}" not in taken)
        self._files.make_dirs(aside)
        self._files.rename(folder, aside / f"{name}.{number}")

    def _load_queue(self, topic: str, queue_id: int) -> None:
        queue = self.make(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._folder / topic / str(queue_id)}: {queue}")
        file_bytes = self.queue_files.file_bytes
        starts: list[int] = []
        for name in self._files.list(queue.folder):
            start = file_start(name)
            stat = self._files.stat(queue.folder / name)
            if start is None or stat is None or stat.is_dir:
                continue
            if stat.size == 0:  # its length was not durable, so its entries are younger than the checkpoint: rebuilt
                self._files.remove(queue.folder / name)
                continue
            if stat.size != file_bytes or start % file_bytes:
                raise StoreLayoutError(
                    f"{queue.folder / name} has {stat.size} bytes, but mappedFileSizeConsumeQueue is {file_bytes}: "
                    f"set mappedFileSizeConsumeQueue={stat.size} for this store"
                )
            starts.append(start)
        if not starts:
            return
        queue.empty = False
        queue.min_offset = starts[0] // ENTRY_BYTES
        per_file = file_bytes // ENTRY_BYTES
        end = queue.min_offset
        for start in reversed(starts):
            written = _count_written(queue, start // ENTRY_BYTES, per_file)
            if written:
                end = start // ENTRY_BYTES + written
                break
        queue.max_offset = queue.next_offset = queue.warm_offset = end


def _count_written(queue: ConsumeQueue, first: int, per_file: int) -> int:
    """How many entries of one file were written, by bisection: written ones come first, then zeros."""
    low, high = 0, per_file
    while low < high:
        middle = (low + high) // 2
        data = queue.read(first + middle, 1)
        log_offset, size, _ = ENTRY.unpack(data) if len(data) == ENTRY_BYTES else (0, 0, 0)
        if log_offset >= 0 and size > 0:
            low = middle + 1
        else:
            high = middle
    return low


def _remove_tree(files: Files, folder: Path) -> None:
    for name in files.list(folder):
        path = folder / name
        stat = files.stat(path)
        if stat is not None and stat.is_dir:
            _remove_tree(files, path)
        else:
            files.remove(path)
    files.remove_dir(folder)
