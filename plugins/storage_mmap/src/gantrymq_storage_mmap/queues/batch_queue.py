"""One batch queue: an entry of 46 bytes for each record of a topic with ``queue.type=BatchCQ``.

    first           number of the first entry whose record is still in the log
    number_end      number after the last published entry
    min_offset, max_offset, next_offset     queue offsets, as in an ordinary queue; they count messages

Entry n is at byte 46 n of the files in ``batchconsumequeue/<topic>/<queue id>``. It covers as many queue offsets as its
record has messages, so the entry of a queue offset is found by bisection over the base offsets. A queue whose first
messages are gone needs no padding: its first entry holds its start.

Source: apache/rocketmq store/.../queue/BatchConsumeQueue.java.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.formats import topic_part
from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile, first_false
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES, BatchQueueEntry, read_batch_entry

Read = Callable[[int, int], bytes]  # entry number and count to packed entries, as `BatchQueue.read_entries`
_KEPT_PLACES = 256


class BatchQueue(SegmentedFile):
    """Offsets and entries of one batch queue."""

    __slots__ = ("_places", "first", "max_offset", "min_offset", "named", "next_offset", "warm_offset")

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        """Create a queue without entries.

        Raises:
            FormatError: the topic does not fit a record.
        """
        super().__init__(files, topic, queue_id)
        self.named = topic_part(topic)[1]
        self.first = 0
        self.min_offset = self.max_offset = self.next_offset = 0
        self.warm_offset = 0  # entries from this queue offset on were written since the start
        self._places: dict[int, int] = {}  # queue offset at which a reader will continue, to entry number

    @property
    def number_end(self) -> int:
        """Number after the newest entry."""
        return self.end // BATCH_ENTRY_BYTES

    def add(self, entry: DispatchEntry, packed: bytes) -> bool:
        """Append the *packed* entry of a record; return False if its queue offset comes before the next one.

        Copied records may leave out queue offsets that the original has lost.
        """
        if entry.queue_offset < self.max_offset and self.number_end > self.first:
            return False
        self.list(entry, packed)
        return True

    def list(self, entry: DispatchEntry, packed: bytes) -> None:
        """Append the *packed* entry of a record, whether or not its queue offset is the next one."""
        if self.number_end == self.first:
            self.min_offset = entry.queue_offset
        self.append(packed)
        self.max_offset = entry.queue_offset + entry.messages

    def settle(self, first: int, number_end: int) -> None:
        """Set the first valid entry and the end that recovery found."""
        self.cut(number_end * BATCH_ENTRY_BYTES)
        last = self.entry(number_end - 1) if number_end else None
        self.max_offset = self.next_offset = self.warm_offset = last.end_offset if last is not None else 0
        self.begin_at(first)

    def read_entries(self, number: int, count: int) -> bytes:
        """Return up to *count* packed entries from entry *number* on, of one file and the tail."""
        return self.read(number * BATCH_ENTRY_BYTES, count * BATCH_ENTRY_BYTES)

    def detached_entries(self) -> Read:
        """Return a function like `read_entries` for use in a thread. Called on the event loop."""
        read = self.detached()
        return lambda number, count: read(number * BATCH_ENTRY_BYTES, count * BATCH_ENTRY_BYTES)

    def entry(self, number: int, read: Read | None = None) -> BatchQueueEntry | None:
        """Return one entry; None if it was never written."""
        data = (read or self.read_entries)(number, 1)
        return read_batch_entry(data, 0) if len(data) >= BATCH_ENTRY_BYTES else None

    def find(self, queue_offset: int, read: Read | None = None) -> int:
        """Return the number of the entry that covers *queue_offset*, which is within the bounds of the queue.

        If the record of that offset was lost to damage, return the number of the following entry.
        """
        place = self._places.pop(queue_offset, None) if read is None else None
        if place is not None:
            return place
        number = self.last_where(lambda entry: entry.base_offset <= queue_offset, read)
        entry = self.entry(number, read)
        return number + 1 if entry is not None and entry.end_offset <= queue_offset else number

    def last_where(
        self, holds: Callable[[BatchQueueEntry], bool], read: Read | None = None, *, missing: bool = True
    ) -> int:
        """Return the number of the last entry for which *holds* is true, or the number before the first entry.

        *holds* must be true for all entries before it too. *missing*: result to assume for entries that were never
        written or are lost.
        """

        def before(number: int) -> bool:
            entry = self.entry(number, read)
            return missing if entry is None else holds(entry)

        return first_false(before, self.first, self.number_end) - 1

    def remember_position(self, queue_offset: int, number: int) -> None:
        """Cache that the entry of *queue_offset*, which a reader will request next, is entry *number*."""
        if len(self._places) >= _KEPT_PLACES:
            self._places.clear()
        self._places[queue_offset] = number

    def begin_at(self, number: int) -> None:
        """Set the first entry whose record is still in the log."""
        self.first = number
        self._places.clear()
        entry = self.entry(number) if number < self.number_end else None
        self.min_offset = entry.base_offset if entry is not None else self.max_offset
