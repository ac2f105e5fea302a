"""The commit log's files: a descriptor each, and a place in the log; and the folder in which they are.

They are read through the descriptor, never through a mapping: a disk that fails under a mapping ends the process, where
``pread`` says what happened.

Nothing but log files of one size, one behind the other, may be in the folder; RocketMQ refuses anything else too. An
empty last file, and one of full length that holds only zeros, are what an interrupted allocation leaves and are taken
as such.

Source: apache/rocketmq store/.../logfile/DefaultMappedFile.java, MappedFileQueue.java (doLoad, checkSelf).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TypeVar

from gantrymq.errors import StoreDamaged, StoreLayoutError
from gantrymq.world import File, Files, Mapping
from gantrymq_store_files.file_names import file_name, file_start

__all__ = ["LogFile", "create_log_file", "load_log_files"]

T = TypeVar("T")


class LogFile:
    """Bytes ``[start, end)`` of the log."""

    __slots__ = ("_closed", "_guard", "_locked", "_readers", "end", "file", "path", "start")

    def __init__(self, start: int, size: int, file: File) -> None:
        """Take ownership of *file*, which is *size* bytes long."""
        self.path = file.path
        self.start = start
        self.end = start + size
        self.file = file
        self._locked: Mapping | None = None
        self._guard = Lock()  # of the next two
        self._readers = 0  # reads that are under way
        self._closed = False

    def lock(self) -> None:
        """Keep the file in memory until it is `unlock`ed. Raises OSError: this process may not lock as much."""
        mapping = self.file.map()
        mapping.lock()
        self._locked = mapping

    def unlock(self) -> None:
        """Let the system take its pages again."""
        if self._locked is not None:
            self._locked.close()
            self._locked = None

    def write(self, start: int, data: bytes) -> None:
        """Copy *data* to byte *start* of the log.

        Raises:
            OSError: the disk refused it.
        """
        self.file.pwrite(data, start - self.start)

    def pread(self, start: int, end: int) -> bytes:
        """Bytes ``[start, end)`` of the log, copied through the descriptor; may block on the disk.

        For any thread: the file is not closed under its feet, and one that is closed already reads as nothing.
        """
        return self._while_open(self.file.pread, end - start, start - self.start) or b""

    def pread_cached(self, start: int, end: int) -> bytes | None:
        """Bytes ``[start, end)`` of the log, if they are in memory; never waits for the disk."""
        return self.file.pread_cached(end - start, start - self.start)

    def prefetch(self, start: int, end: int) -> None:
        """Have bytes ``[start, end)`` of the log read into the page cache, in the background."""
        self._while_open(self.file.prefetch, start - self.start, end - start)

    def drop_cache(self, start: int, end: int) -> None:
        """Let the page cache forget bytes ``[start, end)`` of the log."""
        self._while_open(self.file.drop_cache, start - self.start, end - start)

    def _while_open(self, call: Callable[[int, int], T], first: int, second: int) -> T | None:
        """What *call* gives, None once the file is closed; it stays open meanwhile."""
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
        """Close the descriptor, once the last thread that reads is done."""
        self.unlock()
        with self._guard:
            self._closed = True
            idle = not self._readers
        if idle:
            self.file.close()


def load_log_files(files: Files, folder: Path, file_bytes: int) -> list[LogFile]:
    """Open every log file of *folder*, oldest first.

    Args:
        folder: may be missing, which is an empty log.
        file_bytes: the configured size of every file.

    Raises:
        StoreLayoutError: a stray file, or files of another size; names the key and the size that fits.
        StoreDamaged: a file between the others is missing.
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
            raise StoreLayoutError(f"{path} does not belong into a commit log folder; move the file away")
        if stat.size == 0 and name == names[-1]:
            files.remove(path)
            continue
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


def create_log_file(files: Files, folder: Path, start: int, file_bytes: int) -> LogFile:
    """Make the log file at *start*, its blocks reserved and its name durable, or take over one that is there.

    The length is set before the blocks are reserved, so that a file of a wrong length is never left behind, and it is
    durable before the file is used. May block; two threads doing it for the same file do no harm.

    Raises:
        OSError: no room, or the folder cannot be written.
    """
    path = folder / file_name(start)
    file = files.open(path, create=True)
    try:
        if file.size() != file_bytes:
            file.truncate(file_bytes)
        file.allocate(file_bytes)
        file.datasync()  # the length too: a file of length 0 between others would not be taken for part of a log
        files.sync_dir(folder)
    except BaseException:
        file.close()
        raise
    return LogFile(start, file_bytes, file)


def _likely_size(names: list[str], size: int) -> int:
    starts = [start for start in map(file_start, names) if start is not None]
    steps = {after - before for before, after in pairwise(starts)}
    return steps.pop() if len(steps) == 1 else size
