"""A sequence of files of one size that form one byte range, with its newest bytes in memory.

Ordinary queues, batch queues and ext units are all stored this way.

    files   |-- 0 --|-- 1 --|-- 2 ------------|
    bytes   0 ...... tail_start ... written ... end
                       |------- tail -------|

New bytes are appended to the tail and visible at once. They are written to the files later, many at a time, and stay in
the tail until a sync has made them durable: Linux reports a failed sync once and then treats the pages as clean, so
bytes that were not durable are written again from the tail (`rewrite`).

Files are sparse. The file at byte p holds the bytes from p on, and its name is p in 20 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq_storage_mmap.queues.files import QueueFiles
from gantrymq_store_files.file_names import file_name, file_start, pieces


class SegmentedFile:
    """Bytes by position. All methods belong to the event loop, except `read_files` and those documented otherwise."""

    __slots__ = ("dropped", "end", "files", "queue_id", "tail", "topic", "unwritten")

    def __init__(self, files: QueueFiles, topic: str, queue_id: int) -> None:
        """Create an empty segmented file; its folder need not exist."""
        self.files = files
        self.topic = topic
        self.queue_id = queue_id
        self.end = 0  # position after the newest byte
        self.tail = bytearray()  # the newest bytes, not known to be durable
        self.unwritten = 0  # number of bytes at the end of the tail that are in no file
        self.dropped = False

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return self.files.folder / self.topic / str(self.queue_id)

    def path(self, start: int) -> Path:
        """Path of the file at byte *start*."""
        return Path(self.path_text(start))

    def path_text(self, start: int) -> str:
        """The same as text; takes 0.5 us."""
        return f"{self.files.prefix}/{self.topic}/{self.queue_id}/{file_name(start)}"

    def starts(self) -> list[int]:
        """Return the positions of the existing files in order. For any thread."""
        return sorted(start for name in self.files.files.list(self.folder) if (start := file_start(name)) is not None)

    def delete_file(self, start: int) -> None:
        """Delete the file at byte *start* durably. For any thread; `files` must have forgotten it before."""
        self.files.files.remove(self.path(start))
        self.files.files.sync_dir(self.folder)

    @property
    def tail_start(self) -> int:
        """Position of the first byte of the tail."""
        return self.end - len(self.tail)

    @property
    def written(self) -> int:
        """Position after the last byte that is in a file."""
        return self.end - self.unwritten

    # --- write ------------------------------------------------------------------------------------------------------

    def append(self, data: bytes) -> None:
        """Append *data* in memory."""
        self.tail += data
        self.unwritten += len(data)  # before `end`: threads read `written` and may only see it too low
        self.end += len(data)

    def write_tail(self) -> None:
        """Write the bytes that are in no file yet.

        Raises:
            OSError: the disk is full or failed; the bytes stay in the tail, and writing them again is harmless.
        """
        if self.unwritten:
            self.write(self.written, bytes(memoryview(self.tail)[-self.unwritten :]))
            self.unwritten = 0

    def rewrite(self) -> None:
        """After a failed sync, treat the whole tail as not written."""
        self.unwritten = len(self.tail)

    def synced(self, position: int) -> None:
        """Drop the bytes before *position* from the tail, because they are durable."""
        gone = min(position, self.written) - self.tail_start
        if gone > 0:
            del self.tail[:gone]

    def cut(self, position: int) -> None:
        """Truncate to *position*, at most the current end. The files are unchanged and will be overwritten."""
        self.end = position
        self.tail = bytearray()
        self.unwritten = 0

    def write(self, position: int, data: bytes) -> None:
        """Write *data* into the files at *position*.

        Raises:
            OSError: see `write_tail`; some of the bytes may have been written.
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
        """Return how many bytes of ``[position, position + length)`` to read from files, and the rest from the tail."""
        tail = self.tail
        if not tail:
            return length, b""
        start = position - self.end + len(tail)  # of the first wanted byte, in the tail
        if start >= 0:
            return 0, bytes(tail[start : start + length])
        return (length, b"") if length <= -start else (-start, bytes(tail[: length + start]))

    def read(self, position: int, length: int) -> bytes:
        """Return up to *length* bytes from *position* on, of one file and the tail; empty if the file does not exist.

        The caller checks the bounds: bytes after the end are zeros or missing.
        """
        length, tail = self.split(position, length)
        if not length:
            return tail
        at = position % self.files.file_bytes
        file = self.files.existing(self, position - at)
        data = b"" if file is None else file.pread(min(length, self.files.file_bytes - at), at)
        return self._joined(data, length, tail)

    def read_cached(self, position: int, length: int) -> bytes | None:
        """Like `read`, but return None if the bytes are not in memory."""
        length, tail = self.split(position, length)
        if not length:
            return tail
        at = position % self.files.file_bytes
        file = self.files.existing(self, position - at)
        data = b"" if file is None else file.pread_cached(min(length, self.files.file_bytes - at), at)
        return None if data is None else self._joined(data, length, tail)

    def read_files(self, position: int, length: int, tail: bytes = b"") -> bytes:
        """Like `read`, for any thread. The file is opened for this call only.

        Args:
            position: of the first byte.
            length: bytes to read from files, from `split`.
            tail: the rest, from `split`; without it only the content of the files is returned.
        """
        if not length:
            return tail
        at = position % self.files.file_bytes
        wanted = min(length, self.files.file_bytes - at)
        data = self.files.files.peek(self.path_text(position - at), wanted, at)
        return self._joined(data or b"", length, tail)

    def detached(self) -> Callable[[int, int], bytes]:
        """Return a function like `read` for use in a thread. Called on the event loop."""
        tail_start, tail = self.tail_start, bytes(self.tail)

        def read(position: int, length: int) -> bytes:
            if position >= tail_start:
                return tail[position - tail_start :][:length]
            in_files = min(length, tail_start - position)
            return self.read_files(position, in_files, tail[: length - in_files])

        return read

    @staticmethod
    def _joined(data: bytes, length: int, tail: bytes) -> bytes:
        """Append *tail* to *data* if *data* is complete."""
        return data + tail if tail and len(data) == length else data


def first_false(before: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first number of ``[low, high)`` for which *before* is false; *high* if there is none.

    *before* must be false for every number after the first false one. All searches over entries use this function:
    entries are in log order and therefore in order of store time.
    """
    while low < high:
        middle = (low + high) // 2
        if before(middle):
            low = middle + 1
        else:
            high = middle
    return low
