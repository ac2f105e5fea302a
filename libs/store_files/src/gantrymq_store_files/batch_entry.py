"""Batch queue entries: one per record of a topic with ``queue.type=BatchCQ``, big-endian, 46 bytes.

    | log offset i64 | record size i32 | tags code i64 | store time i64 | base offset i64 | count i16 |
    | compacted offset i32, -1 | reserved i32, 0 |

An entry represents *count* messages with consecutive queue offsets starting at the base offset: an inner batch, or one
message sent individually (count 1). Entries are contiguous in the order of their base offsets; each file is named by
its first byte, so the entry of a queue offset is found by bisection. An entry is valid if its log offset and base
offset are not negative and its size and count are positive; after the last one there are zeros.

Source: apache/rocketmq store/.../queue/BatchConsumeQueue.java (CQ_STORE_UNIT_SIZE, putBatchMessagePositionInfo,
getBatchMessagePositionInfo).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

BATCH_ENTRY = struct.Struct(">qiqqqhii")
BATCH_ENTRY_BYTES = 46
_NOT_COMPACTED = -1


class BatchQueueEntry(NamedTuple):
    """Position of one record in the commit log, and the messages it holds."""

    log_offset: int  # bytes from the start of the whole log, not of one file
    size: int  # bytes of the record, length prefix included
    tags_code: int  # Java String.hashCode of the record's tag, 0 without one; batches usually have none
    store_timestamp: int  # ms
    base_offset: int  # queue offset of the first message
    messages: int  # 1 to 32767
    compacted_offset: int = _NOT_COMPACTED
    reserved: int = 0

    @property
    def end_offset(self) -> int:
        """Queue offset after the last message."""
        return self.base_offset + self.messages


def read_batch_entry(buf: bytes | bytearray | memoryview, index: int) -> BatchQueueEntry | None:
    """Return entry *index* of one file, or None if it was never written.

    Args:
        buf: the bytes of one file, or of a part that starts with an entry.
        index: entry number within *buf*, from 0 (not a queue offset).

    Raises:
        IndexError: *index* is outside *buf*.
    """
    if not 0 <= index < len(buf) // BATCH_ENTRY_BYTES:
        raise IndexError(f"entry {index} of {len(buf) // BATCH_ENTRY_BYTES}")
    entry = BatchQueueEntry._make(BATCH_ENTRY.unpack_from(buf, index * BATCH_ENTRY_BYTES))
    if entry.log_offset < 0 or entry.size <= 0 or entry.base_offset < 0 or entry.messages <= 0:
        return None
    return entry


def pack_batch_entry(
    log_offset: int, size: int, tags_code: int, store_timestamp: int, base_offset: int, messages: int
) -> bytes:
    """Return the bytes of one entry, without compacted offset."""
    return BATCH_ENTRY.pack(log_offset, size, tags_code, store_timestamp, base_offset, messages, _NOT_COMPACTED, 0)
