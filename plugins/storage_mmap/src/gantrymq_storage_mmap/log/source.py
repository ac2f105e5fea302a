"""The log's files as a source for walks (`gantrymq_store_files.log_entries`), read through descriptors.

Also iterates over the records of a range for readers that follow the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_store_files.check import LogContent
from gantrymq_store_files.log_entries import LogEntries
from gantrymq_store_files.log_source import FileRanges, check_offset
from gantrymq_store_files.log_walk import LogDamage, align


class CommitLogSource(FileRanges):
    """A `gantrymq_store_files.log_source.LogSource` of the files that exist when it is created."""

    def __init__(self, log: CommitLog) -> None:
        """Created on the event loop; the methods are for any thread."""
        self._files = list(log.files)
        super().__init__([file.start for file in self._files], log.file_bytes)

    def _holding(self, log_offset: int) -> LogFile | None:
        number = self.number_at(log_offset)
        return None if number is None else self._files[number]

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """See `LogSource`."""
        file = self._holding(start)
        assert file is not None
        return [(file.start + a, file.start + b) for a, b in file.file.written(start - file.start, end - file.start)]

    def read(self, log_offset: int, length: int) -> bytes:
        """Return exactly *length* bytes of one file.

        Raises:
            OSError: the disk failed, or the file was deleted meanwhile.
        """
        file = self._holding(log_offset)
        assert file is not None
        data = file.pread(log_offset, log_offset + length)
        if len(data) < length:
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)}: {length} bytes at {log_offset}", str(file.path))
        return data


def next_record(log: CommitLog, log_offset: int) -> int:
    """Return *log_offset* if a record or a blank starts there, else the start of the next record, or the log's end.

    For positions that were saved before a crash: recovery may have overwritten them with a filler.
    """
    if not log.min_offset <= log_offset < log.end:
        return log_offset
    source = CommitLogSource(log)
    if check_offset(source, log_offset, check_crc=False).found in (LogContent.RECORD, LogContent.BLANK):
        return log_offset
    return min(align(source, log_offset), log.end)


def entries_between(log: CommitLog, start: int, end: int, delay_levels_ms: Sequence[int]) -> Iterator[DispatchEntry]:
    """Iterate over every record of ``[start, end)`` as a dispatch entry.

    Args:
        log: its files when the first entry is requested; files that are deleted meanwhile are skipped.
        start: start of a record, possibly before recovery; raised to the log's minimum.
        end: end of a record.
        delay_levels_ms: durations by delay level, for the tags codes of delayed messages.

    Raises:
        OSError: the disk failed.
    """
    position = max(start, log.min_offset)
    while position < end:
        walk = LogEntries(CommitLogSource(log), position, end, delay_levels_ms=delay_levels_ms, check_crc=False)
        try:
            for found in walk:
                if not isinstance(found, LogDamage):
                    yield from found
            return
        except OSError:
            if walk.position >= log.min_offset:
                raise
        position = log.min_offset
