"""Writes at the log's end, and the state after a failed one: why further writes are refused, and any torn bytes.

If the disk is full, part of a write may remain after the log's end. It is zeroed once there is space again, and writes
resume (`disk_watch`). Any other failure lasts until the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gantrymq.plugin.interfaces import PutStatus
from gantrymq.plugin.world import is_disk_full
from gantrymq_storage_mmap.log.file import LogFile

RESUME = "; writes resume by themselves once there is room"


def no_room(folder: Path, what: str, error: OSError) -> str:
    """Return the error sentence for a write that failed because the disk is full."""
    return f"{what} finds no room on the disk of {folder} ({error.strerror or error}); free space{RESUME}"


class LogWriter:
    """Write state shared by all appenders."""

    def __init__(self) -> None:
        self.refusal: str | None = None  # a sentence after a write into the log has failed
        self.torn_bytes = 0  # bytes after the log's end left by a write to a full disk; zeroed before the next write
        self.newest = (-1, b"")  # log offset and bytes of the last write; slaves are sent them without a read

    @property
    def status(self) -> PutStatus:
        """Status of messages that are refused now."""
        return PutStatus.DISK_FULL if self.torn_bytes else PutStatus.SERVICE_NOT_AVAILABLE

    def write(self, file: LogFile, start: int, data: bytes) -> str | None:
        """Write *data* at log offset *start*; on failure return a sentence: then the log's end must not move."""
        try:
            file.write(start, data)
            self.newest = (start, data)
        except OSError as error:
            if is_disk_full(error):  # a file system that does not honour reservations
                self.refusal = no_room(file.path.parent, "a write into the commit log", error)
                self.torn_bytes = len(data)
            else:
                self.failed(error)
        return self.refusal

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Refuse further writes if the code after a write raises: the record is in the log, but not in any table.

        The next start finds the record.
        """
        try:
            yield
        except BaseException as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Refuse all further writes because of *error*."""
        self.refusal = f"the commit log cannot be written: {error}; restart the broker once the disk works again"
        self.torn_bytes = 0
