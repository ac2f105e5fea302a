"""The commit log's files and the loading of their folder.

Files are read through descriptors, never through a mapping: if the disk fails, reading a mapping kills the process
(SIGBUS), while ``pread`` reports an error.

The folder may contain only consecutive log files of one size; RocketMQ refuses anything else too. An empty last file,
and files of full length that hold only zeros, are left by an interrupted allocation and are accepted.

Source: apache/rocketmq store/.../logfile/DefaultMappedFile.java, MappedFileQueue.java (doLoad, checkSelf).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import TypeVar

from gantrymq.errors import StoreDamaged, StoreLayoutError
from gantrymq.plugin.world import File, FileReader, Files
from gantrymq_store_files.file_names import file_name, file_start

T = TypeVar("T")


class LogFile:
    """Bytes ``[start, end)`` of the log."""

    __slots__ = ("_closed", "_guard", "_readers", "end", "file", "path", "start")

    def __init__(self, start: int, size: int, file: File) -> None:
        """Take ownership of *file*, which is *size* bytes long."""
        self.path = file.path
        self.start = start
        self.end = start + size
        self.file = file
        self._guard = Lock()  # protects the next two attributes
        self._readers = 0  # reads in progress
        self._closed = False

    def write(self, start: int, data: bytes) -> None:
        """Write *data* at byte *start* of the log.

        Raises:
            OSError: the write failed.
        """
        self.file.pwrite(data, start - self.start)

    def pread(self, start: int, end: int) -> bytes:
        """Read bytes ``[start, end)`` of the log through the descriptor; may block on the disk.

        For any thread: the file stays open during the read, and a file that is already closed returns no bytes.
        """
        return self._while_open(self.file.pread, end - start, start - self.start) or b""

    def pread_cached(self, start: int, end: int) -> bytes | None:
        """Return bytes ``[start, end)`` of the log if they are in memory, else None; never blocks on the disk."""
        return self.file.pread_cached(end - start, start - self.start)

    def prefetch(self, start: int, end: int) -> None:
        """Start reading bytes ``[start, end)`` of the log into the page cache in the background."""
        self._while_open(self.file.prefetch, start - self.start, end - start)

    def drop_cache(self, start: int, end: int) -> None:
        """Remove bytes ``[start, end)`` of the log from the page cache."""
        self._while_open(self.file.drop_cache, start - self.start, end - start)

    def _while_open(self, call: Callable[[int, int], T], first: int, second: int) -> T | None:
        """Return the result of *call*, keeping the file open meanwhile; None if it is closed."""
        with self._guard:
            if self._closed:
                return None
            self._readers += 1
        try:
            return call(first, second)
        finally:
            self._call_done()

    def _call_done(self) -> None:
        with self._guard:
            self._readers -= 1
            last = self._closed and not self._readers
        if last:
            self.file.close()

    def close(self) -> None:
        """Close the descriptor when the last reading thread has finished."""
        with self._guard:
            self._closed = True
            idle = not self._readers
        if idle:
            self.file.close()


def load_log_files(files: Files, folder: Path, file_bytes: int) -> list[LogFile]:
    """Open every log file of *folder*, oldest first.

    Args:
        files: access to the disk.
        folder: may be missing, which means an empty log.
        file_bytes: configured size of every file.

    Raises:
        StoreLayoutError: an unknown file, or files of another size; the message names the key and the size that fits.
        StoreDamaged: a file between the others is missing, or one has another size than the others.
    """
    found: list[tuple[Path, int]] = []
    names = files.list(folder)
    for name in names:
        path = folder / name
        stat = files.stat(path)
        if stat is None or stat.is_dir:
            continue
        start = file_start(name)
        if start is None:
            raise StoreLayoutError(f"{path} does not belong in a commit log folder; move the file away")
        # A crash came between the creation of the file and the sync of its length; no record is in it.
        if stat.size == 0 and name == names[-1]:
            files.remove(path)
            continue
        if stat.size != file_bytes and any(_is_whole(files, folder / other, file_bytes) for other in names):
            raise StoreDamaged(
                f"{path} has {stat.size} bytes, others have {file_bytes}: it was truncated or replaced; "
                f"put it back, or make a repaired copy of the store: gantrymq store repair {quote(str(folder.parent))}"
            )
        if stat.size != file_bytes or start % file_bytes:
            size = stat.size if stat.size != file_bytes else _likely_size(names, stat.size)
            raise StoreLayoutError(
                f"{path} has {stat.size} bytes, but mappedFileSizeCommitLog is {file_bytes}: "
                f"set mappedFileSizeCommitLog={size} for this store"
            )
        if found and start != found[-1][1] + file_bytes:
            missing = file_name(found[-1][1] + file_bytes)
            raise StoreDamaged(
                f"{folder}: {missing} is missing between {file_name(found[-1][1])} and {name}; put it back, or, when "
                f"it is lost, have its messages given up: truncate -s {file_bytes} {folder / missing}"
            )
        found.append((path, start))
    opened: list[LogFile] = []
    try:
        for path, start in found:
            opened.append(LogFile(start, file_bytes, files.open(path)))
    except OSError:
        for log_file in opened:
            log_file.close()
        raise
    return opened


def _is_whole(files: FileReader, path: Path, file_bytes: int) -> bool:
    start, stat = file_start(path.name), files.stat(path)
    return start is not None and start % file_bytes == 0 and stat is not None and stat.size == file_bytes


def create_log_file(files: Files, folder: Path, start: int, file_bytes: int) -> LogFile:
    """Create the log file at *start* with reserved blocks and a durable name, or reuse an existing file.

    The length is set before the blocks are reserved, so that a file of a wrong length is never left behind, and it is
    durable before the file is used. May block; two threads doing this for the same file are harmless.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """
    path = folder / file_name(start)
    file = files.open(path, create=True)
    try:
        if file.size() != file_bytes:
            file.truncate(file_bytes)
        file.allocate(file_bytes)
        file.datasync()  # also syncs the length: an empty file between others would be refused at the next start
        files.sync_dir(folder)
    except BaseException:
        file.close()
        raise
    return LogFile(start, file_bytes, file)


def _likely_size(names: list[str], size: int) -> int:
    starts = [start for start in map(file_start, names) if start is not None]
    steps = {after - before for before, after in pairwise(starts)}
    return steps.pop() if len(steps) == 1 else size
