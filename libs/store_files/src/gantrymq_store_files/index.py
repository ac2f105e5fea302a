"""Index files: from a key to the log offsets of its messages. Big-endian, sizes in bytes.

    | header 40 | slots: int32 each | entries: 20 each |

    header  | begin time i64 | end time i64 | begin offset i64 | end offset i64 | used slots i32 | index count i32 |
    slot    | number of its newest entry i32, 0 for none |
    entry   | hash i32 | log offset i64 | seconds after the begin time i32 | previous entry i32, 0 for none |

- The text that is hashed is ``topic#key``; the hash is never negative, and ``hash % slots`` is the slot. Entries of one
  slot are a chain, newest first. Two keys may share a hash; only the record distinguishes them.
- Entries are numbered from 1; entry 0 is never written, so a file holds one entry less than it has space for. *index
  count* is the number of the next entry: 1 in an empty file, where the disk may say 0.
- Times are store times in ms. Begin time and begin offset are those of the first entry, but the seconds of that entry
  count from the end time of the previous file, because a new file starts with that as its begin time.
- The name of a file is its local creation time, ``yyyyMMddHHmmssSSS``; the file does not store its number of slots.

Source: apache/rocketmq store/.../index/IndexFile.java, IndexHeader.java, IndexService.java (buildIndex, queryOffset).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

__all__ = [
    "ENTRY",
    "ENTRY_BYTES",
    "HEADER_BYTES",
    "NAME_DIGITS",
    "SLOT",
    "SLOT_BYTES",
    "IndexEntry",
    "IndexHeader",
    "IndexLayout",
    "index_file_name",
    "is_index_file_name",
    "overlaps",
    "read_header",
    "walk",
    "write_header",
]

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES = HEADER.size, SLOT.size, ENTRY.size
NAME_DIGITS = 17
MAX_SECONDS = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IndexHeader(NamedTuple):
    """Summary of a file's entries."""

    begin_timestamp: int = 0  # ms
    end_timestamp: int = 0  # ms
    begin_offset: int = 0  # log offset of the first entry's message
    end_offset: int = 0  # log offset of the last entry's message
    used_slots: int = 0
    index_count: int = 1  # number of the next entry

    def following(self) -> IndexHeader:
        """Return the initial header of the next file."""
        return IndexHeader(self.end_timestamp, self.end_timestamp, self.end_offset, self.end_offset)


class IndexEntry(NamedTuple):
    """One key of one message."""

    key_hash: int
    log_offset: int
    seconds: int  # after the file's begin time
    previous: int  # number of the previous entry in the same slot


class IndexLayout(NamedTuple):
    """Positions in a file; both numbers are settings of the broker that created it."""

    slots: int = 5_000_000  # maxHashSlotNum
    entries: int = 20_000_000  # maxIndexNum; one more than the file holds

    @property
    def file_bytes(self) -> int:
        """Length of every file."""
        return HEADER_BYTES + self.slots * SLOT_BYTES + self.entries * ENTRY_BYTES

    def slot_at(self, slot: int) -> int:
        """Return the position of a slot, from 0."""
        return HEADER_BYTES + slot * SLOT_BYTES

    def entry_at(self, number: int) -> int:
        """Return the position of an entry, from 1."""
        return HEADER_BYTES + self.slots * SLOT_BYTES + number * ENTRY_BYTES


def read_header(data: bytes | memoryview) -> IndexHeader:
    """Decode the first 40 bytes of a file; a count of 0 or less means an empty file.

    Raises:
        struct.error: fewer than 40 bytes.
    """
    header = IndexHeader._make(HEADER.unpack_from(data))
    return header if header.index_count > 0 else header._replace(index_count=1)


def write_header(header: IndexHeader) -> bytes:
    """Return the 40 bytes of *header*."""
    return HEADER.pack(*header)


def entry_seconds(store_timestamp: int, begin_timestamp: int) -> int:
    """Return the seconds field of an entry; *begin_timestamp* is the value before the entry is added."""
    if begin_timestamp <= 0 or store_timestamp <= begin_timestamp:
        return 0
    return min((store_timestamp - begin_timestamp) // 1000, MAX_SECONDS)


def overlaps(header: IndexHeader, begin_ms: int, end_ms: int) -> bool:
    """Return whether a file may contain messages stored in ``[begin_ms, end_ms]``."""
    return begin_ms <= header.end_timestamp and end_ms >= header.begin_timestamp


def walk(
    header: IndexHeader,
    newest: int,
    read_entry: Callable[[int], IndexEntry],
    key_hash: int,
    window_ms: tuple[int, int],
) -> Iterator[int]:
    """Yield log offsets under *key_hash*, newest first; times have the entries' resolution of one second.

    Args:
        header: of the file.
        newest: content of the hash's slot.
        read_entry: returns an entry by its number.
        key_hash: see `gantrymq_store_files.index_hash`.
        window_ms: first and last store time to include.
    """
    begin_ms, end_ms = window_ms
    number = newest
    while 0 < number < header.index_count:
        entry = read_entry(number)
        time_ms = header.begin_timestamp + entry.seconds * 1000
        if entry.key_hash == key_hash and begin_ms <= time_ms <= end_ms:
            yield entry.log_offset
        if time_ms < begin_ms or entry.previous >= number:  # numbers decrease along a chain, unless it is damaged
            return
        number = entry.previous


def index_file_name(time_ms: int, utc_offset_ms: int) -> str:
    """Return the name of a file created at wall time *time_ms*; *utc_offset_ms*: local time minus UTC."""
    local = _EPOCH + timedelta(milliseconds=time_ms + utc_offset_ms)
    return f"{local:%Y%m%d%H%M%S}{local.microsecond // 1000:03d}"


def is_index_file_name(name: str) -> bool:
    """Return whether *name* can be the name of an index file."""
    return len(name) == NAME_DIGITS and name.isascii() and name.isdecimal()
