"""Writes at the log's end, and what one that failed leaves: a reason to refuse the next, and perhaps torn bytes.

A disk that is full leaves bytes of half a write behind the log's end. They are zeroed once there is room, and writes go
on (`disk_watch`). Any other failure lasts until the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gantrymq.world import is_full
from gantrymq_storage_mmap.full_disk import no_room
from gantrymq_storage_mmap.log.file import LogFile

__all__ = ["LogWriter"]


class LogWriter:
    """Shared by those who append."""

    def __init__(self) -> None:
        self.refusal: str | None = None  # a sentence once a write into the log has failed
        self.torn_bytes = 0  # behind the log's end, of a write that found no room: to be zeroed before the next

    def write(self, file: LogFile, start: int, data: bytes) -> str | None:
        """Write *data* to log offset *start*; a sentence when that failed, and then the log's end must not move."""
        try:
            file.write(start, data)
        except OSError as error:
            if is_full(error):  # a file system that does not keep what it reserved
                self.refusal = no_room(file.path.parent, "a write into the commit log", error)
                self.torn_bytes = len(data)
            else:
                self.failed(error)
        return self.refusal

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """What follows a write belongs to it: when that raises, the record is in the log and nothing knows of it.

        Then nothing more is written, and the next start finds the record.
        """
        try:
            yield
        except BaseException as error:
            self.failed(error)
            raise

    def failed(self, error: BaseException) -> None:
        """Nothing can be written any more: *error*."""
        self.refusal = f"the commit log cannot be written: {error}; restart the broker once the disk is well"
        self.torn_bytes = 0
