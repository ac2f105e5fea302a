"""The log's files for whoever walks over them (`gantrymq.formats.log_entries`), read through descriptors."""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right

from gantrymq_storage_mmap.log.commit_log import CommitLog

__all__ = ["CommitLogSource"]


class CommitLogSource:
    """`gantrymq.formats.log_source.LogSource` of the files as they are when it is made."""

    def __init__(self, log: CommitLog) -> None:
        """Made on the event loop."""
        self.file_bytes = log.file_bytes
        self._files = list(log.files)
        self._starts = [file.start for file in self._files]

    @property
    def start(self) -> int:
        """Log offset at which the first file begins; 0 without one."""
        return self._starts[0] if self._starts else 0

    @property
    def end(self) -> int:
        """Log offset at which the last file ends; 0 without one."""
        return self._files[-1].end if self._files else 0

    def file_start(self, log_offset: int) -> int | None:
        """Where the file begins that holds *log_offset*; None where there is none."""
        index = bisect_right(self._starts, log_offset) - 1
        return self._starts[index] if index >= 0 and log_offset < self._files[index].end else None

    def next_start(self, log_offset: int) -> int | None:
        """Where the first file begins that starts at or behind *log_offset*."""
        index = bisect_left(self._starts, log_offset)
        return self._starts[index] if index < len(self._starts) else None

    def data_from(self, log_offset: int) -> int:
        """See `LogSource`."""
        file = self._files[bisect_right(self._starts, log_offset) - 1]
        return min(file.start + file.file.data_from(log_offset - file.start), file.end)

    def read(self, log_offset: int, length: int) -> bytes:
        """Exactly *length* bytes of one file.

        Raises:
            OSError: the disk failed, or the file was deleted meanwhile.
        """
        file = self._files[bisect_right(self._starts, log_offset) - 1]
        data = file.pread(log_offset, log_offset + length)
        if len(data) < length:
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)}: {length} bytes at {log_offset}", str(file.path))
        return data
