"""Every queue of the store: ``consumequeue/<topic>/<queue id>/<20 digits>``, and the same below ``consumequeue_ext``
(ext files of ordinary queues) and ``batchconsumequeue`` (queues of topics with ``queue.type=BatchCQ``).

Source: apache/rocketmq store/.../queue/ConsumeQueueStore.java (loadConsumeQueues, destroy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gantrymq.errors import StoreLayoutError
from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq.model.light_queues import is_light
from gantrymq.model.queue import Queue
from gantrymq.world import Files, Workers
from gantrymq_storage_mmap.log.file import file_start
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, topic_problem
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.tails import QueueTails
from gantrymq_storage_mmap.queues.topic_types import topic_types

__all__ = ["QueueTable"]

DROPPED_FOLDER = "dropped"  # beside consumequeue: queues of deleted topics until a thread has removed them


class QueueTable:
    """Queues by topic and id."""

    def __init__(self, root: Path, queue_files: QueueFiles, options: Options) -> None:
        """*root*: the store's folder."""
        self.by_name: dict[tuple[str, int], ConsumeQueue] = {}  # ordinary queues, light ones among them
        self.batch: dict[tuple[str, int], BatchQueue] = {}
        self.batch_topics: set[str] = set()
        self.light_count = 0  # light queues in `by_name`
        self.queue_files = queue_files
        self.tails = QueueTails()
        files, most_open = queue_files.files, max(1, options.max_open_queue_files // 4)
        self.batch_files = QueueFiles(files, options.batch_file_bytes, most_open)
        self.ext_files = QueueFiles(files, options.ext_file_bytes, most_open)
        self._ext_units = options.ext_units
        self._ext_topics: set[str] = set()  # topics with ext files when the store was opened
        self.dropped = DroppedTopics(queue_files.files, root)
        self._root = root
        self._folder = root / "consumequeue"
        self._batch_folder = root / "batchconsumequeue"
        self._ext_folder = root / "consumequeue_ext"
        self._files: Files = queue_files.files

    def load(self, log_min: int) -> None:
        """Find the queues that are there and the end of each; *log_min* is where the log starts.

        Raises:
            StoreLayoutError: files of another size, or a RocksDB folder; says which and what fits.
            StoreDamaged: the note of deleted topics cannot be read.
        """
        self.dropped.load(log_min)
        types = topic_types(self._files, self._root)
        self.batch_topics = {name for name, batch in types.items() if batch}
        self._load_batch_queues(types)
        self._ext_topics = set(self._files.list(self._ext_folder))
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

    def get(self, queue: tuple[str, int]) -> ConsumeQueue | BatchQueue | None:
        """The queue, None when it never got a message."""
        return self.by_name.get(queue) or self.batch.get(queue)

    def make(self, topic: str, queue_id: int) -> ConsumeQueue | str:
        """The queue, made in memory when it is new; a sentence when there cannot be one of these names."""
        queue = self.by_name.get((topic, queue_id))
        if queue is None:
            if topic in self.batch_topics:
                return (
                    f"topic {topic} has batch queues in this store, but not among the broker's topics; create it with: "
                    f"gantrymq topic create -t {topic} -a +queue.type=BatchCQ"
                )
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return problem
            queue = ConsumeQueue(self.queue_files, self._folder / topic / str(queue_id), topic, queue_id)
            self.by_name[topic, queue_id] = queue
            if is_light(topic):
                self.light_count += 1
            else:
                folder = self._ext_folder / topic / str(queue_id)
                if self._ext_units or topic in self._ext_topics:
                    self._check_sizes(folder, self.ext_files.file_bytes, "mappedFileSizeConsumeQueueExt")
                    queue.ext = ExtQueue(self.ext_files, folder, writes=self._ext_units)
        return queue

    def make_batch(self, topic: str, queue_id: int) -> BatchQueue | str:
        """The batch queue, made in memory when it is new; a sentence when there cannot be one of these names."""
        queue = self.batch.get((topic, queue_id))
        if queue is None:
            if topic not in self.batch_topics and any(name[0] == topic for name in self.by_name):
                return f"topic {topic} has ordinary queues, so it cannot get batch queues (queue.type=BatchCQ)"
            problem = topic_problem(topic, queue_id)
            if problem is not None:
                return problem
            self.batch_topics.add(topic)
            queue = BatchQueue(self.batch_files, self._batch_folder / topic / str(queue_id), topic, queue_id)
            self.batch[topic, queue_id] = queue
        return queue

    def turn_to_batch(self, topic: str) -> None:
        """A record shows that *topic* has batch queues, which nothing said before."""
        self.batch_topics.add(topic)
        for name in [name for name in self.by_name if name[0] == topic]:
            if not self.by_name[name].empty:
                raise StoreLayoutError(
                    f"{self._folder / topic} holds ordinary queues, but the log holds inner batches of topic {topic} "
                    "(queue.type=BatchCQ); move that folder away to have its queues rebuilt"
                )
            del self.by_name[name]

    def names(self) -> list[Queue]:
        """Every queue that has or had a message, sorted."""
        found = [Queue(*name) for name, queue in self.by_name.items() if queue.next_offset or not queue.empty]
        return sorted(found + [Queue(*name) for name, queue in self.batch.items() if queue.next_offset])

    def extras(self) -> list[BatchQueue | ExtQueue]:
        """Every batch queue, and the ext files of every queue that has any."""
        ext = [queue.ext for queue in self.by_name.values() if queue.ext is not None]
        return [*self.batch.values(), *ext]

    def close(self) -> None:
        """Close every file."""
        for files in (self.queue_files, self.batch_files, self.ext_files):
            files.close()

    def dirty(self) -> list[ConsumeQueue]:
        """Queues with entries in files that are not durable."""
        return [queue for queue in self.by_name.values() if queue.dirty_from >= 0]

    def drop(self, topic: str, log_end: int, workers: Workers, log: Callable[[str], object]) -> None:
        """Forget the queues of *topic*; the folder is moved aside at once and removed in a thread.

        *log_end*: end of the log now; a later record of this topic starts it anew. Raises OSError.
        """
        self.batch_topics.discard(topic)
        if not any(name[0] == topic for name in (*self.by_name, *self.batch)):
            return
        self.dropped.add(topic, log_end)
        for name in [name for name in self.by_name if name[0] == topic]:
            self._forget(self.by_name[name])
        for name in [name for name in self.batch if name[0] == topic]:
            batch = self.batch.pop(name)
            batch.dropped = True
            self.batch_files.forget(batch.folder)
        for part in (self._folder, self._ext_folder, self._batch_folder):
            if self._files.stat(part / topic) is not None:
                self._move_aside(part / topic, topic)
        if self._files.list(self._root / DROPPED_FOLDER):
            self.remove_dropped(workers, log)

    def remove(self, queue: ConsumeQueue, workers: Workers, log: Callable[[str], object]) -> None:
        """Forget one queue that has no record in the log and nothing that waits; as `drop`. Raises OSError."""
        self._forget(queue)
        folders = [queue.folder] if queue.ext is None else [queue.folder, queue.ext.folder]
        for folder in [each for each in folders if self._files.stat(each) is not None]:
            self._move_aside(folder, f"{queue.topic}.{queue.queue_id}")
            if not self._files.list(folder.parent):
                self._files.remove_dir(folder.parent)
            self.remove_dropped(workers, log)

    def _forget(self, queue: ConsumeQueue) -> None:
        del self.by_name[queue.topic, queue.queue_id]
        self.light_count -= is_light(queue.topic)
        queue.dropped = True
        queue.dirty_from = -1
        self.tails.forget(queue)
        self.queue_files.forget(queue.folder)
        if queue.ext is not None:
            queue.ext.dropped = True
            self.ext_files.forget(queue.ext.folder)

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
        starts = self._check_sizes(queue.folder, file_bytes, "mappedFileSizeConsumeQueue")
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

    def _load_batch_queues(self, types: Mapping[str, bool]) -> None:
        for topic in self._files.list(self._batch_folder):
            if types.get(topic) is False:
                raise StoreLayoutError(
                    f"{self._batch_folder / topic} holds batch queues, but topics.json does not give topic {topic} the "
                    "attribute queue.type=BatchCQ; put the attribute back, or move that folder away to have ordinary "
                    "queues built from the log"
                )
            self.batch_topics.add(topic)
            for queue_id in self._files.list(self._batch_folder / topic):
                if queue_id.isdecimal():
                    self._load_batch_queue(topic, int(queue_id))

    def _load_batch_queue(self, topic: str, queue_id: int) -> None:
        queue = self.make_batch(topic, queue_id)
        if isinstance(queue, str):
            raise StoreLayoutError(f"{self._batch_folder / topic / str(queue_id)}: {queue}")
        file_bytes = self.batch_files.file_bytes
        starts = self._check_sizes(queue.folder, file_bytes, "mapperFileSizeBatchConsumeQueue")
        if starts:
            queue.load(starts, file_bytes // BATCH_ENTRY_BYTES)

    def _check_sizes(self, folder: Path, file_bytes: int, key: str) -> list[int]:
        """Positions of the files of one queue, in order.

        Raises:
            StoreLayoutError: one has another size than the setting *key* says.
        """
        starts: list[int] = []
        for name in self._files.list(folder):
            start = file_start(name)
            stat = self._files.stat(folder / name)
            if start is None or stat is None or stat.is_dir:
                continue
            if stat.size == 0:  # its length was not durable, so its entries are younger than the checkpoint: rebuilt
                self._files.remove(folder / name)
                continue
            if stat.size != file_bytes or start % file_bytes:
                raise StoreLayoutError(
                    f"{folder / name} has {stat.size} bytes, but {key} is {file_bytes}: "
                    f"set {key}={stat.size} for this store"
                )
            starts.append(start)
        return starts


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
