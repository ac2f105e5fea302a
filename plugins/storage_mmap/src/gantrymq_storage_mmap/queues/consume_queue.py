"""One consume queue: entries by queue offset, in sparse files of one size.

    min_offset      first entry whose record is still in the log
    max_offset      behind the last entry that is published; what readers see as the end
    next_offset     what the next appended message gets; ahead of max_offset by what is appended but not published
    written_offset  behind the last entry that is in a file; from there to max_offset entries are in `tail`, in memory

The file at byte p holds the entries from p / 20 on. A queue that starts above 0 is filled up to there with pre-blank
entries (see `gantrymq.formats.queue_entry`), as RocketMQ does, or it would not find the end of the queue.

Source: apache/rocketmq store/.../ConsumeQueue.java.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.formats.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK
from gantrymq.formats.record import topic_part
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq_storage_mmap.queues.ext_queue import ExtQueue
from gantrymq_storage_mmap.queues.files import QueueFiles

__all__ = ["ConsumeQueue", "topic_problem"]

MAX_TOPIC_BYTES = 127
MAX_RETRY_TOPIC_BYTES = 255


class ConsumeQueue:
    """Offsets and entries of one queue."""

    __slots__ = (
        "_files",
        "dirty_from",
        "dropped",
        "empty",
        "ext",
        "folder",
        "magic",
        "max_offset",
        "min_offset",
        "named",
        "next_offset",
        "queue_id",
        "tail",
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
        self.magic, self.named = topic_part(topic)
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self.warm_offset = 0  # entries from here on were written since the start: reading them does not block
        self.tail = bytearray()  # packed, the newest published entries, which are in no file yet
        self.empty = True  # no file was ever written
        self.dirty_from = -1  # queue offset of the first entry in a file that is not durable, -1 when all are
        self.dropped = False
        self.ext: ExtQueue | None = None  # its ext files, where it has any or is to get them

    @property
    def written_offset(self) -> int:
        """Queue offset behind the last entry that is in a file."""
        return self.max_offset - len(self.tail) // ENTRY_BYTES

    def write_tail(self) -> None:
        """Write the entries that are in no file yet.

        Raises:
            OSError: as `write`; they stay in memory, and writing them again does no harm.
        """
        self.write(self.written_offset, bytes(self.tail))
        self.tail = bytearray()

    def write(self, queue_offset: int, entries: bytes) -> None:
        """Write packed *entries* from *queue_offset* on. Budget: 3 us a call.

        Raises:
            OSError: no room, or the file system is broken; some of the entries may be there.
        """
        position = queue_offset * ENTRY_BYTES
        if self.empty:
            self._begin(queue_offset)
        file_bytes = self._files.file_bytes
        start = position - position % file_bytes
        if position + len(entries) <= start + file_bytes:
            self._files.made(self.folder, start).pwrite(entries, position - start)
        else:
            rest = memoryview(entries)
            while rest:
                start = position - position % file_bytes
                piece = rest[: start + file_bytes - position]
                self._files.made(self.folder, start).pwrite(piece, position - start)
                position += len(piece)
                rest = rest[len(piece) :]
        if self.dirty_from < 0 or queue_offset < self.dirty_from:
            self.dirty_from = queue_offset

    def split(self, queue_offset: int, count: int) -> tuple[int, bytes]:
        """How many of the entries ``[queue_offset, queue_offset + count)`` belong to files, and the bytes of the rest.

        Budget: 0.2 us.
        """
        tail = self.tail
        if not tail:
            return count, b""
        start = (queue_offset - self.max_offset) * ENTRY_BYTES + len(tail)  # of the first wanted entry, in the tail
        if start >= 0:
            return 0, bytes(tail[start : start + count * ENTRY_BYTES])
        in_files = -start // ENTRY_BYTES
        return (count, b"") if count <= in_files else (in_files, bytes(tail[: (count - in_files) * ENTRY_BYTES]))

    def read(self, queue_offset: int, count: int) -> bytes:
        """Up to *count* packed entries from *queue_offset* on, of one file and the tail; empty where there is no file.

        Budget: 2 us for entries in the page cache. Bounds are the caller's business: bytes behind the last entry are
        zeros or missing.
        """
        count, tail = self.split(queue_offset, count)
        if not count:
            return tail
        start, position, length = self._span(queue_offset, count)
        file = self._files.existing(self.folder, start)
        if file is None:
            return b""
        data = file.pread(length, position)
        return data + tail if tail and len(data) == count * ENTRY_BYTES else data

    def read_cached(self, queue_offset: int, count: int) -> bytes | None:
        """As `read`, if the entries are in memory; None where the disk would have to be waited for."""
        count, tail = self.split(queue_offset, count)
        if not count:
            return tail
        start, position, length = self._span(queue_offset, count)
        file = self._files.existing(self.folder, start)
        if file is None:
            return b""
        data = file.pread_cached(length, position)
        return data + tail if tail and data is not None and length == count * ENTRY_BYTES else data

    def read_detached(self, queue_offset: int, count: int, tail: bytes) -> bytes:
        """As `read`, for a thread of its own: opens the file for this one call; *count* and *tail* are from `split`."""
        if not count:
            return tail
        start, position, length = self._span(queue_offset, count)
        try:
            file = self._files.files.open(self.folder / f"{start:020d}", read_only=True)
        except FileNotFoundError:
            return b""
        try:
            data = file.pread(length, position)
        finally:
            file.close()
        return data + tail if tail and len(data) == count * ENTRY_BYTES else data

    def _span(self, queue_offset: int, count: int) -> tuple[int, int, int]:
        """Start of the file with *queue_offset*, where in it that entry is, and the bytes of *count* there at most."""
        at, file_bytes = queue_offset * ENTRY_BYTES, self._files.file_bytes
        position = at % file_bytes
        return at - position, position, min(count * ENTRY_BYTES, file_bytes - position)

    def entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tags code of one entry; None where nothing was written."""
        data = self.read(queue_offset, 1)
        if len(data) < ENTRY_BYTES:
            return None
        log_offset, size, tags_code = ENTRY.unpack(data)
        return (log_offset, size, tags_code) if log_offset >= 0 and size > 0 else None

    def file_starts(self, begin: int, end: int) -> list[int]:
        """Positions of the files that hold entries ``[begin, end)``."""
        file_bytes = self._files.file_bytes
        first = begin * ENTRY_BYTES
        return list(range(first - first % file_bytes, end * ENTRY_BYTES, file_bytes))

    def _begin(self, queue_offset: int) -> None:
        """Make the first file; entries before *queue_offset* in it become pre-blank and lie below the minimum."""
        position = queue_offset * ENTRY_BYTES
        start = position - position % self._files.file_bytes
        file = self._files.made(self.folder, start)
        if position > start:
            file.pwrite(PRE_BLANK * ((position - start) // ENTRY_BYTES), 0)
            self.min_offset = max(self.min_offset, queue_offset)
        self.empty = False


def topic_problem(topic: str, queue_id: int) -> str | None:
    """Why no queue can be kept under these names, or None. A topic names a folder, so it must not lead elsewhere."""
    try:
        length = len(topic.encode("utf-8"))
    except UnicodeEncodeError:
        return f"the topic {topic!r} cannot be written as UTF-8"
    limit = MAX_RETRY_TOPIC_BYTES if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_BYTES
    if not 1 <= length <= limit:
        return f"the topic has {length} bytes, 1 to {limit} are allowed"
    if "/" in topic or "\\" in topic or "\0" in topic or topic in (".", ".."):
        return f"the topic {topic!r} is not usable as a folder's name"
    if not 0 <= queue_id <= 0x7FFFFFFF:
        return f"the queue id {queue_id} is outside 0 to 2147483647"
    try:
        topic_part(topic)
    except FormatError as problem:
        return str(problem)
    return None
