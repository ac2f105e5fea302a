"""The protocol: requests of 13 bytes, each with one answer, in order.

A request has a kind, a log offset and a length. An answer has a status, a length and bytes.
"""

from __future__ import annotations

import asyncio
import enum
import struct

REQUEST = struct.Struct(">BQI")
ANSWER = struct.Struct(">BI")
RANGE = struct.Struct(">QQ")
CHECKSUM = struct.Struct(">I")
BLOCK_BYTES = 1 << 20


class Kind(enum.IntEnum):
    """What a follower asks for."""

    RANGE = 1  # the smallest and the largest log offset
    CHECKSUM = 2  # CRC-32 of a range
    READ = 3  # bytes from a log offset on; waits for some if there are none
    FLUSHED = 4  # an empty answer once the log is on disk up to the log offset
    TABLES = 5  # topics, groups and offsets, as JSON


class Status(enum.IntEnum):
    """How an answer begins."""

    OK = 0
    REFUSED = 1  # the bytes are a sentence


class Refused(Exception):
    """The source refused a request."""


async def write_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: Kind, log_offset: int = 0, length: int = 0
) -> bytes:
    """Send a request and return the bytes of its answer.

    Raises:
        Refused: the source cannot answer it.
        OSError, EOFError: the connection is lost.
    """
    writer.write(REQUEST.pack(kind, log_offset, length))
    await writer.drain()
    status, size = ANSWER.unpack(await reader.readexactly(ANSWER.size))
    data = await reader.readexactly(size)
    if status != Status.OK:
        raise Refused(data.decode())
    return data
