"""Where the log goes on behind a place that cannot be read: the next sound record, in the same file or a later one.

The damaged record's own size is tried first where its lengths add up (a size with one bit flipped may lead to another
record's start, past sound ones); where that leads nowhere, the magic number of records is searched for, and
a record counts when it is sound as a whole and says that it stands where it was found. It must not be older than the
last record before the damage: a Java broker leaves what it cut off in the file, and newer records in front of it would
bring it back.

A log that simply ends has nothing but zeros behind it. That is the ordinary case after a crash, so zeros are compared
a megabyte at a time and not searched.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gantrymq.errors import FormatError
from gantrymq.formats.blank import BLANK_BYTES
from gantrymq.formats.check import Found, check_place
from gantrymq.formats.record import read_record
from gantrymq_storage_mmap.log.file import LogFile

__all__ = ["Behind", "look_behind"]

CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)
_MAGIC = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
_MAGIC_AT = 4
_MAGIC_BYTES = 4


class Behind(NamedTuple):
    """What stands behind a place."""

    log_offset: int  # of the next sound record, -1 without one
    timestamp: int  # ms, its store time
    zeros: bool  # nothing but zeros stand from the place on


def look_behind(files: list[LogFile], place: int, not_before_ms: int, *, check_crc: bool) -> Behind:
    """Look for the first sound record behind *place*. Reads up to the end of the log: 1 GB of zeros takes 0.3 s.

    Args:
        files: the log's files.
        place: log offset of something that is no sound record.
        not_before_ms: store time of the record before it; an older one behind it does not count.
        check_crc: whether bodies are checked.
    """
    zeros = True
    for file in files:
        if file.end <= place:
            continue
        start = max(place, file.start)
        found, only_zeros = _in_file(file, start, not_before_ms, check_crc, at_start=start > place)
        zeros = zeros and only_zeros
        if found is not None:
            return Behind(*found, False)
    return Behind(-1, 0, zeros)


def _in_file(
    file: LogFile, start: int, not_before_ms: int, check_crc: bool, *, at_start: bool
) -> tuple[tuple[int, int] | None, bool]:
    """Place and store time of the first sound record of *file* from *start* on, and whether only zeros stand there."""
    view = file.mapping().view

    def sound(log_offset: int) -> tuple[int, int] | None:
        record = check_place(view, log_offset - file.start, log_offset, check_crc=check_crc).record
        if record is None or record.store_timestamp < not_before_ms:
            return None
        return log_offset, record.store_timestamp

    if at_start and (first := sound(start)) is not None:
        return first, False
    size = _size_of(view, start - file.start)
    if 0 < size <= file.end - start - BLANK_BYTES:
        if (following := sound(start + size)) is not None:
            return following, False
        if check_place(view, start + size - file.start, start + size).found is Found.BLANK:
            return None, False
    zeros = True
    for at in range(start, file.end, CHUNK_BYTES):
        data = file.pread(at, min(at + CHUNK_BYTES, file.end))
        if data == _ZEROS[: len(data)]:
            continue
        zeros = False
        data = file.pread(at, min(at + CHUNK_BYTES + _MAGIC_AT + _MAGIC_BYTES, file.end))
        for match in _MAGIC.finditer(data):
            place = at + match.start() - _MAGIC_AT
            if place > start and (found := sound(place)) is not None:
                return found, False
    return None, zeros


def _size_of(view: memoryview, position: int) -> int:
    """Size of the record at *position*, 0 where its lengths do not add up."""
    try:
        return read_record(view, position).total_size
    except FormatError:
        return 0
