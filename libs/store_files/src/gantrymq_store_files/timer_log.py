"""The timer log: an entry for each waiting timed message, in files of one size. Big-endian, times in ms.

    | 52 i32 | previous i64 | magic i32 | written i64 | delay i32 | log offset i64 | size i32 | topic hash i32 | 0 i64 |

- previous: position of the previous entry in the same slot of the wheel, -1 for the first.
- magic: 1, plus 2 for an entry that only waits for its next round, plus 4 for one that cancels a message.
- due time = written + delay; written is the wheel's time when the entry was created.
- log offset and size locate the message in the commit log; topic hash is Java's hash of its real topic.
- An entry does not cross files: if 52 bytes and 16 more do not fit, a blank fills the file:

    | bytes left i32 | 0 i64 | 0xCBD43194 |

Source: apache/rocketmq store/.../timer/TimerLog.java, TimerMessageStore.java (doEnqueue, recoverAndRevise).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = [
    "DEFAULT",
    "DELETE",
    "ENTRY_BYTES",
    "ROLL",
    "TimerEntry",
    "blank",
    "decode_entry",
    "encode_entry",
    "is_blank",
    "last_entry_position",
    "next_entry_position",
]

DEFAULT, ROLL, DELETE = 1, 2, 4

_ENTRY = struct.Struct(">iqiqiqiiq")
ENTRY_BYTES = _ENTRY.size
_BLANK = struct.Struct(">iqI")
_BLANK_MAGIC = 0xCBD43194
_MAGIC_BITS = 0xF


class TimerEntry(NamedTuple):
    """One waiting message."""

    previous: int  # bytes from the start of the timer log, -1 for none
    magic: int
    written_ms: int
    delay_ms: int  # a signed 32-bit number
    log_offset: int  # bytes from the start of the commit log
    size: int  # of the record
    topic_hash: int  # signed

    @property
    def due_ms(self) -> int:
        """The due time, which is the time of its slot."""
        return self.written_ms + self.delay_ms

    @property
    def rolls(self) -> bool:
        """Whether it only waits for its next round."""
        return self.magic & ROLL != 0

    @property
    def deletes(self) -> bool:
        """Whether it cancels a message."""
        return self.magic & DELETE != 0


def encode_entry(entry: TimerEntry) -> bytes:
    """Return the 52 bytes of *entry*."""
    return _ENTRY.pack(ENTRY_BYTES, *entry, 0)


def decode_entry(data: bytes | memoryview, at: int = 0) -> TimerEntry | None:
    """Return the entry at byte *at*, or None: too short, another length field, or invalid magic bits."""
    if at < 0 or len(data) - at < ENTRY_BYTES:
        return None
    length, *fields, _ = _ENTRY.unpack_from(data, at)
    entry = TimerEntry._make(fields)
    return entry if length == ENTRY_BYTES and entry.magic & ~_MAGIC_BITS == 0 else None


def blank(length: int) -> bytes:
    """Return the blank for *length* unused bytes at the end of a file."""
    return _BLANK.pack(length, 0, _BLANK_MAGIC)


def is_blank(data: bytes | memoryview, at: int = 0) -> bool:
    """Return whether the rest of a file is unused from *at* on."""
    return len(data) - at >= _BLANK.size and _BLANK.unpack_from(data, at)[2] == _BLANK_MAGIC


def next_entry_position(end: int, file_bytes: int) -> int:
    """Return the position of the next entry in a log that ends at *end*, possibly in the next file."""
    left = file_bytes - end % file_bytes
    return end if left >= ENTRY_BYTES + _BLANK.size else end + left


def last_entry_position(file_bytes: int) -> int:
    """Return the position of the last entry of a full file."""
    return (file_bytes - _BLANK.size) // ENTRY_BYTES * ENTRY_BYTES - ENTRY_BYTES
