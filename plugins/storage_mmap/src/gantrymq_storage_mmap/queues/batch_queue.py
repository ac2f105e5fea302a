"""One batch queue: an entry of 46 bytes for each record of a topic with ``queue.type=BatchCQ``.

    first           number of the first entry whose record is still in the log
    end             behind the last entry that is published
    min_offset, max_offset, next_offset     queue offsets, as of an ordinary queue; they count messages

Entry n stands at byte 46 n of the files in ``batchconsumequeue/<topic>/<queue id>``. It covers as many queue offsets as
its record has messages, so the entry of a queue offset is found by bisection over the base offsets. A queue whose first
messages are gone needs no filling: its first entry says where it starts.

Source: apache/rocketmq store/.../queue/BatchConsumeQueue.java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gantrymq.formats.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, read_batch_entry
from gantrymq.formats.record import topic_part
from gantrymq_storage_mmap.log.file import file_name
from gantrymq_storage_mmap.queues.files import QueueFiles

__all__ = ["BatchQueue", "Read"]

Read = Callable[[int, int], bytes]  # entry number and count to packed entries of one file, as `BatchQueue.read`
KEPT_PLACES = 256


class BatchQueue:
    """Offsets and entries of one batch queue."""

    __slots__ = (
        "_files",
        "_places",
        "dirty_from",
        "dropped",
        "end",
        "first",
        "folder",
        "max_offset",
        "min_offset",
        "named",
        "next_offset",
        "queue_id",
        "topic",
        "warm_offset",
    )

    def __init__(self, files: QueueFiles, folder: Path, topic: str, queue_id: int) -> None:
        """A queue without entries; *folder* need not exist.

        Raises:
            FormatError: the topic does not fit a record.
        """
        self._files = files
        self.folder = folder
        self.topic = topic
        self.queue_id = queue_id
        self.named = topic_part(topic)[1]
        self.first = self.end = 0
        self.min_offset = self.max_offset = self.next_offset = 0
        self.warm_offset = 0  # entries from this queue offset on were written since the start
        self.dirty_from = -1  # number of the first entry that is not durable, -1 when all are
        self.dropped = False
        self._places: dict[int, int] = {}  # queue offset where a reader goes on to the number of its entry

    @property
    def files(self) -> QueueFiles:
        """Where the entries are."""
        return self._files

    @property
    def end_position(self) -> int:
        """Position of the byte behind the last entry."""
        return self.end * BATCH_ENTRY_BYTES

    def load(self, starts: Sequence[int], per_file: int) -> None:
        """Find the end of what the files that begin at *starts* hold: written entries come first, then zeros."""
        self.first = self.end = starts[0] // BATCH_ENTRY_BYTES
        for start in reversed(starts):
            low, high = 0, per_file
            while low < high:
                middle = (low + high) // 2
                if self.entry(start // BATCH_ENTRY_BYTES + middle) is not None:
                    low = middle + 1
                else:
                    high = middle
            if low:
                self.end = start // BATCH_ENTRY_BYTES + low
                break
        last = self.entry(self.end - 1) if self.end > self.first else None
        self.max_offset = self.next_offset = self.warm_offset = last.end_offset if last is not None else 0
        self.begin_at(self.first)

    def write(self, number: int, entries: bytes) -> None:
        """Write packed *entries* from entry *number* on.

        Raises:
            OSError: no room, or the file system is broken; some of the entries may be there.
        """
        position, file_bytes = number * BATCH_ENTRY_BYTES, self._files.file_bytes
        rest = memoryview(entries)
        while rest:
            start = position - position % file_bytes
            piece = rest[: start + file_bytes - position]
            self._files.made(self.folder, start).pwrite(piece, position - start)
            position += len(piece)
            rest = rest[len(piece) :]
        if self.dirty_from < 0 or number < self.dirty_from:
            self.dirty_from = number

    def write_waiting(self, items: Sequence[bytes]) -> None:
        """Write the entries that become visible next; see `write`."""
        self.write(self.end, b"".join(items))

    def show(self, items: Sequence[bytes]) -> None:
        """Make visible what `write_waiting` wrote."""
        if self.end == self.first:
            self.min_offset = BatchQueueEntry._make(_unpacked(items[0])).base_offset
        self.end += len(items)
        self.max_offset = BatchQueueEntry._make(_unpacked(items[-1])).end_offset

    def read(self, number: int, count: int) -> bytes:
        """Up to *count* packed entries from entry *number* on, those of one file only; empty without a file."""
        position, file_bytes = number * BATCH_ENTRY_BYTES, self._files.file_bytes
        start = position - position % file_bytes
        file = self._files.existing(self.folder, start)
        if file is None:
            return b""
        return file.pread(min(count * BATCH_ENTRY_BYTES, start + file_bytes - position), position - start)

    def read_detached(self, number: int, count: int) -> bytes:
        """As `read`, for a thread of its own: opens the file for this one call."""
        position, file_bytes = number * BATCH_ENTRY_BYTES, self._files.file_bytes
        start = position - position % file_bytes
        try:
            file = self._files.files.open(self.folder / file_name(start), read_only=True)
        except FileNotFoundError:
            return b""
        try:
            return file.pread(min(count * BATCH_ENTRY_BYTES, start + file_bytes - position), position - start)
        finally:
            file.close()

    def entry(self, number: int, read: Read | None = None) -> BatchQueueEntry | None:
        """One entry; None where nothing was written."""
        data = (read or self.read)(number, 1)
        return read_batch_entry(data, 0) if len(data) >= BATCH_ENTRY_BYTES else None

    def find(self, queue_offset: int, read: Read | None = None) -> int:
        """Number of the entry that covers *queue_offset*, which lies within the queue's bounds.

        Of one whose record was lost to damage: number of the entry behind. Budget: 1 us where a reader goes on, else
        3 us for each halving of the queue.
        """
        place = self._places.pop(queue_offset, None) if read is None else None
        if place is not None:
            return place
        number = self.last_where(lambda entry: entry.base_offset <= queue_offset, read)
        entry = self.entry(number, read)
        return number + 1 if entry is not None and entry.end_offset <= queue_offset else number

    def last_where(self, holds: Callable[[BatchQueueEntry], bool], read: Read | None = None) -> int:
        """Number of the last entry that *holds*, which all before it do as well; before the first when none does."""
        low, high = self.first, self.end
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle, read)
            if entry is None or holds(entry):
                low = middle + 1
            else:
                high = middle
        return low - 1

    def goes_on(self, queue_offset: int, number: int) -> None:
        """Remember that the entry of *queue_offset* is *number*: a reader will ask for it next."""
        if len(self._places) >= KEPT_PLACES:
            self._places.clear()
        self._places[queue_offset] = number

    def begin_at(self, number: int) -> None:
        """Set the first entry whose record is still in the log."""
        self.first = number
        self._places.clear()
        entry = self.entry(number) if number < self.end else None
        self.min_offset = entry.base_offset if entry is not None else self.max_offset

    def file_starts(self, begin: int, end: int) -> list[int]:
        """Positions of the files that hold entries ``[begin, end)``."""
        file_bytes, first = self._files.file_bytes, begin * BATCH_ENTRY_BYTES
        return list(range(first - first % file_bytes, end * BATCH_ENTRY_BYTES, file_bytes))

    def take_dirty(self) -> list[int]:
        """Positions of the files with entries that are not durable; they count as durable from now on."""
        starts = self.file_starts(self.dirty_from, self.end) if self.dirty_from >= 0 else []
        self.dirty_from = -1
        return starts

    def give_dirty(self, starts: Sequence[int]) -> None:
        """Take back what `take_dirty` gave: the files could not be made durable."""
        if starts and not self.dropped:
            number = starts[0] // BATCH_ENTRY_BYTES
            self.dirty_from = number if self.dirty_from < 0 else min(number, self.dirty_from)


def _unpacked(packed: bytes) -> tuple[int, ...]:
    entry = read_batch_entry(packed, 0)
    assert entry is not None, "an entry that was packed here is whole"
    return entry
