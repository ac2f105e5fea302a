"""A row of files of one size, and its newest bytes in memory: what ordinary queues, batch queues and ext units share.

    files   |-- 0 --|-- 1 --|-- 2 ------------|
    bytes   0 ........ kept_from ... written ... end
                       |------- tail -------|

New bytes are appended to the tail and visible at once. They are written to the files later, many at a time, and leave
the tail only when a sync has made them durable: Linux tells of a failed sync once and forgets the pages, so what was
not durable then is written again (`rewrite`), from here.

Files are sparse. The file at byte p holds the bytes from p on, and its name is p in 20 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_store_files.file_names import file_name, file_start, pieces

__all__ = ["FileRow", "first_not"]


class FileRow:
    """Bytes by position. All methods belong to the event loop, but for `look` and what says so."""

    __slots__ = ("dropped", "end", "files", "queue_id", "tail", "topic", "unwritten")

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        """An empty row; its folder need not exist."""
        self.files = files
        self.topic = topic
        self.queue_id = queue_id
        self.end = 0  # position behind the newest byte
        self.tail = bytearray()  # the newest bytes: those that are not known to be durable
        self.unwritten = 0  # how many of them, at the end, are in no file
        self.dropped = False

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.files.folder / self.topic / str(self.queue_id)

    def path(self, start: int) -> Path:
        """The file at byte *start*."""
        return Path(self.path_text(start))

    def path_text(self, start: int) -> str:
        """The same in 0.5 us."""
        return f"{self.files.prefix}/{self.topic}/{self.queue_id}/{file_name(start)}"

    def starts(self) -> list[int]:
        """Positions of the files that are there, in order. For any thread."""
        return sorted(start for name in self.files.files.list(self.folder) if (start := file_start(name)) is not None)

    def delete_file(self, start: int) -> None:
        """Delete the file at byte *start* for good. For any thread; who calls had `files` forget it before."""
        self.files.files.remove(self.path(start))
        self.files.files.sync_dir(self.folder)

    @property
    def kept_from(self) -> int:
        """Position of the first byte of the tail."""
        return self.end - len(self.tail)

    @property
    def written(self) -> int:
        """Position behind the last byte that is in a file."""
        return self.end - self.unwritten

    # --- write ------------------------------------------------------------------------------------------------------

    def append(self, data: bytes) -> None:
        """Add *data* in memory."""
        self.tail += data
        self.unwritten += len(data)  # before the end: threads look at `written`, and may get it too low
        self.end += len(data)

    def write_tail(self) -> None:
        """Write what is in no file yet.

        Raises:
            OSError: no room, or the file system is broken; the bytes stay, and writing them again does no harm.
        """
        if self.unwritten:
            self.write(self.written, bytes(memoryview(self.tail)[-self.unwritten :]))
            self.unwritten = 0

    def rewrite(self) -> None:
        """A sync failed: nothing of the tail is believed to be in a file."""
        self.unwritten = len(self.tail)

    def synced(self, position: int) -> None:
        """Everything before *position* is durable, and need not be kept."""
        gone = min(position, self.written) - self.kept_from
        if gone > 0:
            del self.tail[:gone]

    def cut(self, position: int) -> None:
        """Let the row end at *position*, which is not behind its end. Files stay as they are, to be written over."""
        self.end = position
        self.tail = bytearray()
        self.unwritten = 0

    def write(self, position: int, data: bytes) -> None:
        """Write *data* into the files from *position* on.

        Raises:
            OSError: as `write_tail`; some of the bytes may be there.
        """
        file_bytes = self.files.file_bytes
        start = position - position % file_bytes
        if position + len(data) <= start + file_bytes:
            self.files.write(self, start, data, position - start)
            return
        rest = memoryview(data)
        for start, at, length in pieces(position, len(data), file_bytes):
            self.files.write(self, start, rest[:length], at)
            rest = rest[length:]

    # --- read -------------------------------------------------------------------------------------------------------

    def split(self, position: int, length: int) -> tuple[int, bytes]:
        """How many of the bytes ``[position, position + length)`` come from files, and the bytes of the rest."""
        tail = self.tail
        if not tail:
            return length, b""
        start = position - self.end + len(tail)  # of the first wanted byte, in the tail
        if start >= 0:
            return 0, bytes(tail[start : start + length])
        return (length, b"") if length <= -start else (-start, bytes(tail[: length + start]))

    def read(self, position: int, length: int) -> bytes:
        """Up to *length* bytes from *position* on, of one file and the tail; empty where there is no file.

        Bounds are the caller's business: bytes behind the end are zeros or missing.
        """
        length, tail = self.split(position, length)
        if not length:
            return tail
        at = position % self.files.file_bytes
        file = self.files.existing(self, position - at)
        data = b"" if file is None else file.pread(min(length, self.files.file_bytes - at), at)
        return self._joined(data, length, tail)

    def read_cached(self, position: int, length: int) -> bytes | None:
        """As `read`, if the bytes are in memory; None where the disk would have to be waited for."""
        length, tail = self.split(position, length)
        if not length:
            return tail
        at = position % self.files.file_bytes
        file = self.files.existing(self, position - at)
        data = b"" if file is None else file.pread_cached(min(length, self.files.file_bytes - at), at)
        return None if data is None else self._joined(data, length, tail)

    def look(self, position: int, length: int, tail: bytes = b"") -> bytes:
        """As `read`, for any thread: *length* and *tail* are from `split`; without a tail, what the files hold.

        The file is opened for this one look.
        """
        if not length:
            return tail
        at = position % self.files.file_bytes
        wanted = min(length, self.files.file_bytes - at)
        data = self.files.files.peek(self.path_text(position - at), wanted, at)
        return self._joined(data or b"", length, tail)

    def detached(self) -> Callable[[int, int], bytes]:
        """Made on the event loop: as `read`, for a thread of its own."""
        kept_from, tail = self.kept_from, bytes(self.tail)

        def read(position: int, length: int) -> bytes:
            if position >= kept_from:
                return tail[position - kept_from :][:length]
            in_files = min(length, kept_from - position)
            return self.look(position, in_files, tail[: length - in_files])

        return read

    @staticmethod
    def _joined(data: bytes, length: int, tail: bytes) -> bytes:
        """Bytes of a file, and the tail where they reach up to it."""
        return data + tail if tail and len(data) == length else data


def first_not(before: Callable[[int], bool], low: int, high: int) -> int:
    """The first number of ``[low, high)`` that is not *before*, as none behind it is; *high* when all are.

    The one search over entries: they lie in the order of the log, and so of store time.
    """
    while low < high:
        middle = (low + high) // 2
        if before(middle):
            low = middle + 1
        else:
            high = middle
    return low
