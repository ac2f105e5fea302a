"""One consume queue: entries by queue offset, in sparse files of one size.

    min_offset      first entry whose record is still in the log
    max_offset      after the last published entry; the end that readers see
    next_offset     assigned to the next appended message; ahead of max_offset by appended but unpublished messages

The file at byte p holds the entries from p / 20 on. A queue that starts above 0 is padded up to its start with
pre-blank entries (see `gantrymq_store_files.queue_entry`), as in RocketMQ, which otherwise would not find the end of
the queue.

Source: apache/rocketmq store/.../ConsumeQueue.java.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import can_be_folder, topic_part
from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.names import DLQ_PREFIX, MAX_RETRY_TOPIC_CHARS, MAX_TOPIC_CHARS, RETRY_PREFIX
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile, first_false
from gantrymq_store_files.ext_unit import ExtUnit
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, QueueEntry, is_pre_blank, read_entry

_VERSIONS: Final = itertools.count(1)


class ConsumeQueue(SegmentedFile):
    """Offsets and entries of one queue."""

    __slots__ = ("empty", "ext", "magic", "min_offset", "named", "next_offset", "oldest", "version", "warm_offset")

    def __init__(self, files: QueueFiles, topic: str, queue_id: int, part: tuple[int, bytes] | None = None) -> None:
        """Create a queue without entries.

        Args:
            files: the files of all queues.
            topic: name of the topic.
            queue_id: from 0.
            part: `topic_part` of the topic, if the caller has it.

        Raises:
            FormatError: the topic does not fit a record.
        """
        super().__init__(files, topic, queue_id)
        self.magic, self.named = part or topic_part(topic)
        self.min_offset = 0
        self.next_offset = 0
        self.warm_offset = 0  # entries from here on were written since the start: reading them does not block
        self.oldest = -1  # log offset of the record at min_offset; -1 if not read yet
        self.empty = True  # no file was ever written
        self.ext: ExtQueue | None = None  # its ext files, if it has or will get any
        self.version = next(_VERSIONS)  # another one after any change but appends: nothing known of entries holds

    @property
    def max_offset(self) -> int:
        """Queue offset after the newest entry; the end that readers see."""
        return self.end // ENTRY_BYTES

    @property
    def written_offset(self) -> int:
        """Queue offset after the last entry in a file. A thread may see it too low while entries are added."""
        return self.written // ENTRY_BYTES

    @property
    def durable_offset(self) -> int:
        """Like `written_offset`, for entries that a failed sync can no longer affect; may also be too low."""
        return self.tail_start // ENTRY_BYTES

    @property
    def writes_units(self) -> bool:
        """Whether new entries refer to ext units."""
        return self.ext is not None and self.ext.writes

    def add(self, entry: DispatchEntry, packed: bytes) -> bool:
        """Append the *packed* entry of a record at its queue offset; return False if that is not the next one."""
        if entry.queue_offset * ENTRY_BYTES != self.end:
            return False
        if self.writes_units:
            assert self.ext is not None
            make_bits = self.ext.bit_maps.get(self.topic)
            bits = make_bits(entry.properties) if make_bits is not None else b""
            unit = ExtUnit(entry.tags_code, entry.store_timestamp, bits)
            packed = ENTRY.pack(entry.log_offset, entry.size, self.ext.add(unit))
        self.append(packed)
        return True

    def write(self, position: int, data: bytes) -> None:
        """Like `SegmentedFile.write`; entries before the queue's first one become pre-blank."""
        start = position - position % self.files.file_bytes
        if self.empty and position > start:
            super().write(start, PRE_BLANK * ((position - start) // ENTRY_BYTES))
        super().write(position, data)
        self.empty = False

    def cut(self, position: int) -> None:
        """See `SegmentedFile.cut`."""
        super().cut(position)
        self.version = next(_VERSIONS)

    def rebuilt(self) -> None:
        """Note that entries in files were replaced."""
        self.version = next(_VERSIONS)

    def begin_at(self, queue_offset: int) -> None:
        """Let a queue without entries continue at *queue_offset*."""
        self.cut(queue_offset * ENTRY_BYTES)
        self.min_offset = self.next_offset = self.warm_offset = queue_offset

    def entries(self, queue_offset: int, count: int) -> bytes:
        """Return up to *count* packed entries from *queue_offset* on; see `SegmentedFile.read`."""
        return self.read(queue_offset * ENTRY_BYTES, count * ENTRY_BYTES)

    def in_file(self, queue_offset: int) -> int:
        """Return the number of entries from *queue_offset* to the end of its file."""
        return (self.files.file_bytes - queue_offset * ENTRY_BYTES % self.files.file_bytes) // ENTRY_BYTES

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return one entry; None if it was never written."""
        return entry_of(self.read(queue_offset * ENTRY_BYTES, ENTRY_BYTES))

    def entry_in_files(self, queue_offset: int) -> QueueEntry | None:
        """Like `entry`, but from the files only. For any thread."""
        return entry_of(self.read_files(queue_offset * ENTRY_BYTES, ENTRY_BYTES))

    def first_from(self, low: int, log_min: int) -> int:
        """Return the queue offset of the first entry from *low* on at or after *log_min*; see `first_in_log`."""
        return first_in_log(self.entry, low, self.max_offset, log_min)[0]


def entry_of(data: bytes) -> QueueEntry | None:
    """Return the packed entry at the start of *data*; None if it was never written."""
    return read_entry(data, 0) if len(data) >= ENTRY_BYTES else None


def first_in_log(entry: Callable[[int], QueueEntry | None], low: int, high: int, log_min: int) -> tuple[int, int]:
    """Return the first queue offset of ``[low, high)`` whose *entry* is at or after *log_min*, and its log offset.

    If there is none, return *high* and -1. Entries that were never written count as before *log_min*: their file was
    deleted. The two ends are checked first, because they are the answer for nearly every queue.
    """
    oldest = -1

    def gone(queue_offset: int) -> bool:
        nonlocal oldest
        found = entry(queue_offset)
        if found is None or found[0] < log_min or is_pre_blank(found[0], found[1]):
            return True
        oldest = found[0]
        return False

    if low < high and gone(low):
        low = high if gone(high - 1) else first_false(gone, low + 1, high - 1)
        if low < high:
            gone(low)
    return low, oldest


def topic_problem(topic: str, queue_id: int) -> str | None:
    """Return why these names are not allowed, or None. The topic names a folder, so it must not lead elsewhere."""
    try:
        length = len(topic.encode("utf-8"))
    except UnicodeEncodeError:
        return f"the topic {topic!r} cannot be written as UTF-8"
    limit = MAX_RETRY_TOPIC_CHARS if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_CHARS
    if not 1 <= length <= limit:
        return f"the topic has {length} bytes, 1 to {limit} are allowed"
    if not can_be_folder(topic):
        return f"the topic {topic!r} is not usable as a folder's name"
    if not 0 <= queue_id <= 0x7FFFFFFF:
        return f"the queue id {queue_id} is outside 0 to 2147483647"
    try:
        topic_part(topic)
    except FormatError as problem:
        return str(problem)
    return None
