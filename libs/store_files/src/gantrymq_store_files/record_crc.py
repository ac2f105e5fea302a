"""The optional check sum of a whole record, stored as its last property (``enabledAppendPropCRC``).

    ... | __CRC32# | 0x01 | 10 decimal digits, least significant first, padded with "0" on the right | 0x02 |

The sum is the CRC-32, without its top bit, of everything in the record before these 20 bytes. For other readers it is
an ordinary property.

Source: apache/rocketmq common/.../message/MessageDecoder.java (createCrc32), store/.../CommitLog.java
(checkMessageAndReturnSize).
"""

from __future__ import annotations

from zlib import crc32

CRC_TAIL_BYTES = 20
CRC_TAIL_START = b"__CRC32#\x01"


def crc_tail(record_without_tail: bytes | bytearray | memoryview) -> bytes:
    """Return the 20 bytes that end a record with a check sum; lengths in the record already include them."""
    digits = str(crc32(record_without_tail) & 0x7FFFFFFF)[::-1].ljust(10, "0")
    return CRC_TAIL_START + digits.encode("ascii") + b"\x02"


def record_crc_matches(raw: bytes | bytearray | memoryview) -> bool | None:
    """Return whether the check sum of record *raw* is right; None if it has none."""
    tail = bytes(raw[-CRC_TAIL_BYTES:])
    if not tail.startswith(CRC_TAIL_START) or not tail.endswith(b"\x02"):
        return None
    return tail == crc_tail(raw[:-CRC_TAIL_BYTES])
