"""Single records at any position of the log: from memory at once, or from the disk in a thread.

A lookup first tries `CachedReads` on the event loop. If data is not in memory, or if the lookup takes more reads than
one turn of the loop should, `NotInMemory` is raised and the lookup is repeated in a thread with `DiskReads`.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import RecordView, read_record
from gantrymq.plugin.world import File
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile

_MOST_READS: Final = 64  # of one lookup on the event loop: 0.1 ms
_MOST_BYTES: Final = 1024**2
_USUAL_BYTES: Final = 2048  # most records are shorter and need one read


class NotInMemory(Exception):
    """Raised when a lookup has to run in a thread."""


class DiskReads:
    """Reads that may block on the disk, for use in a thread. Raises OSError."""

    def index(self, file: File, length: int, position: int) -> bytes:
        """Return bytes of an index file."""
        return file.pread(length, position)

    def log(self, file: LogFile, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)`` of the log, within one of its files."""
        return file.pread(start, end)


class HotReads(DiskReads):
    """Reads of recently written data on the event loop, which is also where files are closed."""

    def log(self, file: LogFile, start: int, end: int) -> bytes:
        """See `DiskReads`."""
        return file.file.pread(end - start, start - file.start)


class CachedReads(DiskReads):
    """Reads of one lookup on the event loop, from the page cache only.

    Every method raises NotInMemory if the bytes are not in the cache, or if the lookup becomes too large.
    """

    def __init__(self) -> None:
        self._reads, self._bytes = _MOST_READS, _MOST_BYTES

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
    """Return the record at *log_offset*, read through the descriptor; None if no record starts there.

    Raises:
        OSError: the disk failed.
        NotInMemory: *source* does not block, and the record is not in memory.
    """
    file = log.find(log_offset)
    if file is None or log_offset >= log.end:
        return None
    end = min(file.end, log.end)
    data = source.log(file, log_offset, min(log_offset + _USUAL_BYTES, end))
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
