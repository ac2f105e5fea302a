"""The files of the log as they are now, for a thread that reads them while the event loop goes on."""

from __future__ import annotations

from bisect import bisect_right

from gantrymq_storage_mmap.log.commit_log import CommitLog

__all__ = ["LogSnapshot"]


class LogSnapshot:
    """Made on the event loop; `pread` may be called from any thread."""

    def __init__(self, log: CommitLog) -> None:
        self._files = list(log.files)
        self._starts = [file.start for file in self._files]

    def pread(self, log_offset: int, length: int) -> bytes:
        """Up to *length* bytes from *log_offset*, of one file; nothing outside the log, or where it was deleted."""
        index = bisect_right(self._starts, log_offset) - 1
        if index < 0 or log_offset >= self._files[index].end:
            return b""
        file = self._files[index]
        return file.pread(log_offset, min(log_offset + length, file.end))
