"""The blank that closes a commit log file when the next record does not fit. Big-endian, 8 bytes written.

    | bytes left in the file, including these eight i32 | magic 0xCBD43194 u32 | previous content, normally zeros ... |

A record of n bytes is written to the file only if n + 8 bytes are left, so a blank always fits. A reader that finds a
blank continues at the start of the next file.

Source: apache/rocketmq store/.../CommitLog.java (DefaultAppendMessageCallback, END_FILE_MIN_BLANK_LENGTH).
"""

from __future__ import annotations

import struct

__all__ = ["BLANK_BYTES", "MAGIC_BLANK", "encode_blank", "fits"]

MAGIC_BLANK = 0xCBD43194
BLANK_BYTES = 8
_BLANK = struct.Struct(">iI")


def fits(record_bytes: int, bytes_left: int) -> bool:
    """Whether a record (or a whole batch) fits into a file with *bytes_left*."""
    return record_bytes + BLANK_BYTES <= bytes_left


def encode_blank(bytes_left: int) -> bytes:
    """Return the eight bytes that close a file with *bytes_left* (at least 8)."""
    return _BLANK.pack(bytes_left, MAGIC_BLANK)
