"""Consume-queue entries: the fixed 20-byte index over the commit log, big-endian.

    | log offset i64 | record size i32 | tags code i64 |

Entry n of a queue is at byte 20 n of its files, each named by its first byte. A queue whose entries start above 0
(older ones were deleted before its files were rebuilt) is padded up to there with pre-blank entries: offset 0, size
0x7FFFFFFF, code 0. They look valid; only the queue's minimum offset excludes them. An entry of offset 0 and size 0 was
never written.

A tags code below the range of int32 is not a code but the address of a unit in an ext file, offset by -2^63.

Source: apache/rocketmq store/.../ConsumeQueue.java (CQ_STORE_UNIT_SIZE, fillPreBlank), ConsumeQueueExt.java
(isExtAddr).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = 20
PRE_BLANK = ENTRY.pack(0, 0x7FFFFFFF, 0)
MAX_EXT_ADDRESS = -2147483649  # the largest tags code that is an address


class QueueEntry(NamedTuple):
    """Position of one message in the commit log."""

    log_offset: int  # bytes from the start of the whole log, not of one file
    size: int  # bytes, length prefix included
    tags_code: int  # Java String.hashCode of the tag, 0 without one; deliver time for delayed messages


def read_entry(buf: bytes | bytearray | memoryview, index: int) -> QueueEntry | None:
    """Return entry *index* of one queue file, or None if it was never written.

    Args:
        buf: the bytes of one file, or of a part that starts with an entry.
        index: entry number within *buf*, from 0 (not the queue offset).

    Raises:
        IndexError: *index* is outside *buf*.
    """
    if not 0 <= index < len(buf) // ENTRY_BYTES:
        raise IndexError(f"entry {index} of {len(buf) // ENTRY_BYTES}")
    entry = QueueEntry._make(ENTRY.unpack_from(buf, index * ENTRY_BYTES))
    return entry if entry.log_offset >= 0 and entry.size > 0 else None


def is_pre_blank(log_offset: int, size: int) -> bool:
    """Return whether an entry only pads the range below a queue's first message."""
    return size == 0x7FFFFFFF and log_offset == 0


def is_ext_address(tags_code: int) -> bool:
    """Return whether *tags_code* is the address of an ext unit instead of a code."""
    return tags_code <= MAX_EXT_ADDRESS
