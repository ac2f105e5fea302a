"""Single records, wherever they lie in the log: from memory at once, or from the disk in a thread.

A look-up tries `CachedReads` on the event loop first. Where something would have to be waited for, or where it takes
more reads than a turn of the loop should, `NotInMemory` sends it to a thread with `DiskReads`.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import FormatError
from gantrymq.formats.record import RecordView, read_record
from gantrymq.world import File
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile

__all__ = ["CachedReads", "DiskReads", "HotReads", "NotInMemory", "read_cold"]

MOST_READS: Final = 64  # of one look-up on the event loop: 0.1 ms
MOST_BYTES: Final = 1024**2
USUAL_BYTES: Final = 2048  # most records are shorter, and read at once


class NotInMemory(Exception):
    """The look-up is for a thread."""


class DiskReads:
    """Where bytes come from: waits for the disk. Belongs to a thread. What raises is OSError."""

    def index(self, file: File, length: int, position: int) -> bytes:
        """Bytes of an index file."""
        return file.pread(length, position)

    def log(self, file: LogFile, start: int, end: int) -> bytes:
        """Bytes ``[start, end)`` of the log, in one of its files."""
        return file.pread(start, end)


class HotReads(DiskReads):
    """For the event loop, which reads what was written a moment ago, and closes files itself."""

    def log(self, file: LogFile, start: int, end: int) -> bytes:
        """See `DiskReads`."""
        return file.file.pread(end - start, start - file.start)


class CachedReads(DiskReads):
    """Serves one look-up on the event loop.

    Every method raises NotInMemory when the system does not have the bytes in its cache, and when it gets too much.
    """

    def __init__(self) -> None:
        self._reads, self._bytes = MOST_READS, MOST_BYTES

    def index(self, file: File, length: int, position: int) -> bytes:
        """See `DiskReads`."""
        self._allow(length)
        return _present(file.pread_cached(length, position))

    def log(self, file: LogFile, start: int, end: int) -> bytes:
        """See `DiskReads`."""
        self._allow(end - start)
        return _present(file.pread_cached(start, end))

    def _allow(self, length: int) -> None:
        self._reads -= 1
        self._bytes -= length
        if self._reads < 0 or self._bytes < 0:
            raise NotInMemory


def _present(data: bytes | None) -> bytes:
    if data is None:
        raise NotInMemory
    return data


def read_cold(log: CommitLog, log_offset: int, source: DiskReads) -> RecordView | None:
    """The record at *log_offset*, through the descriptor; None where no record starts.

    Raises:
        OSError: the disk failed.
        NotInMemory: *source* does not wait, and would have to.
    """
    file = log.find(log_offset)
    if file is None or log_offset >= log.end:
        return None
    end = min(file.end, log.end)
    data = source.log(file, log_offset, min(log_offset + USUAL_BYTES, end))
    size = int.from_bytes(data[:4], "big", signed=True)
    if not 0 < size <= end - log_offset:
        return None
    if size > len(data):
        data = source.log(file, log_offset, log_offset + size)
    try:
        record = read_record(data)
    except FormatError:
        return None
    return record if record.log_offset == log_offset else None
