"""Message ids: unique ids created by clients and offset ids created by brokers.

    unique id  | IP 4 (or 16) | pid 2 | loader 4 | ms in month 4 | counter 2 |   upper-case hex
    offset id  | store host IP 4 (or 16) | port int32 | log offset int64 |       upper-case hex

Source: apache/rocketmq common/.../message/MessageClientIDSetter.java, MessageDecoder.java
(createMessageId, decodeMessageId).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gantrymq import speedups
from gantrymq.model.hosts import unpack_host
from gantrymq.world import Clock

_HEX = re.compile("[0-9A-Fa-f]*")
_OFFSET = struct.Struct(">q")


def offset_id(packed_host: bytes, log_offset: int) -> str:
    """Return the offset id of the record at *log_offset*: 32 characters for IPv4, 56 for IPv6."""
    return (packed_host + _OFFSET.pack(log_offset)).hex().upper()


class OffsetIds:
    """Creates the offset ids of one host."""

    def __init__(self, packed_host: bytes) -> None:
        self._head = packed_host.hex().upper()

    def of(self, log_offset: int) -> str:
        """Return the id of the message at *log_offset* (0 or more)."""
        return f"{self._head}{log_offset:016X}"

    def joined(self, results: Sequence[tuple[Any, ...]]) -> str:
        """Return the ids of stored messages, separated by commas; the third item of a result is the log offset."""
        return join_offset_ids(self._head, results)


def _join_offset_ids(head: str, results: Sequence[tuple[Any, ...]]) -> str:
    """Return ids that begin with *head*, separated by commas."""
    return ",".join([f"{head}{result[2]:016X}" for result in results])


join_offset_ids = _join_offset_ids if speedups.compiled is None else speedups.compiled.join_offset_ids


def parse_offset_id(text: str) -> tuple[str, int, int]:
    """Return host, port and log offset of an offset id.

    Raises:
        ValueError: *text* does not consist of 32 or 56 hexadecimal digits.
    """
    if not isinstance(text, str):
        raise ValueError(f"message id {text!r} is not text")
    if len(text) not in (32, 56):
        raise ValueError(f"message id {text!r} has {len(text)} characters; an offset id has 32 (IPv4) or 56 (IPv6)")
    if not _HEX.fullmatch(text):
        raise ValueError(f"message id {text!r} has characters that are not hexadecimal digits")
    raw = bytes.fromhex(text)
    host, port = unpack_host(raw[:-8])
    return host, port, _OFFSET.unpack(raw[-8:])[0]


def is_offset_id(text: str) -> bool:
    """Return whether *text* can be an offset id. A unique id has the same length, but not a valid port in its place."""
    try:
        _, port, log_offset = parse_offset_id(text)
    except ValueError:
        return False
    return 0 <= port <= 65535 and log_offset >= 0


class UniqueIds:
    """Creates the unique ids of one process."""

    def __init__(self, address: bytes, process_id: int, loader: int, clock: Clock) -> None:
        """*address*: 4 or 16 bytes; *loader*: any 32-bit number of this process."""
        self._head = (address + struct.pack(">HI", process_id & 0xFFFF, loader & 0xFFFFFFFF)).hex().upper()
        self._clock = clock
        self._month_start, self._month_end = 0, -1
        self._counter = 0

    def next(self) -> str:
        """Return the next id. The counter wraps after 65,536."""
        return unique_id(*self.take(1))

    def take(self, count: int) -> tuple[str, int, int]:
        """Return the arguments of `unique_id` for the first of *count* ids; the counter of each is one more."""
        now = self._clock.now_ms()
        if not self._month_start <= now < self._month_end:
            self._month_start, self._month_end = month_around(now, self._clock.utc_offset_ms(now))
        first = (self._counter + 1) & 0xFFFF
        self._counter = (self._counter + count) & 0xFFFF
        return self._head, (now - self._month_start) & 0xFFFFFFFF, first


def unique_id(head: str, elapsed_ms: int, counter: int) -> str:
    """Return the id with these parts: the same text for the whole process, ms since the month began, a counter."""
    return f"{head}{elapsed_ms:08X}{counter & 0xFFFF:04X}"


def month_around(now_ms: int, utc_offset_ms: int) -> tuple[int, int]:
    """Return the wall times of the start of the month of *now_ms* and of the next month, in local time."""
    local = datetime.fromtimestamp((now_ms + utc_offset_ms) / 1000, UTC)
    start = datetime(local.year, local.month, 1, tzinfo=UTC)
    end = datetime(local.year + local.month // 12, local.month % 12 + 1, 1, tzinfo=UTC)
    return round(start.timestamp() * 1000) - utc_offset_ms, round(end.timestamp() * 1000) - utc_offset_ms
