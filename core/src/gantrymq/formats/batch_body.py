"""Body of a client batch (request 320): entries back to back, big-endian.

    | total size i32 | magic i32 | body crc i32 | flag i32 | body length i32, body | length i16, properties |

Clients leave magic and crc 0; a broker checks neither. Every entry becomes one record.

Source: apache/rocketmq common/.../message/MessageDecoder.java (encodeMessage, encodeMessages, decodeMessage).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from gantrymq import speedups
from gantrymq.errors import FormatError
from gantrymq.model.properties import TAGS

_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">h")
_TAG_MARK = f"{TAGS}\x01".encode()
MIN_ENTRY_BYTES = 22  # size, magic, CRC, flag, body length: i32 each; length of properties: i16

Buffer = bytes | bytearray | memoryview


class BatchEntry(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes | memoryview  # a slice of the request after `decode_batch`
    properties: bytes  # property text, possibly without the final separator


def decode_batch(body: Buffer, most: int | None = None) -> list[BatchEntry]:
    """Decode the entries of a batch in order, at most *most* of them.

    Raises:
        FormatError: the body is cut short, lengths are inconsistent, or there are too many entries; the message gives
            number and position of the entry.
    """
    view = memoryview(body)
    entries: list[BatchEntry] = []
    position, end = 0, len(view)
    while position < end:
        where = f"batch entry {len(entries)} at {position}"
        if len(entries) == most:
            raise FormatError(f"{where}: a batch may have {most} messages (maxBatchMessages); send fewer at once")
        if end - position < MIN_ENTRY_BYTES:
            raise FormatError(f"{where}: {end - position} bytes are left, the shortest entry has {MIN_ENTRY_BYTES}")
        size, _, _, flag, body_length = _HEAD.unpack_from(view, position)
        if not MIN_ENTRY_BYTES <= size <= end - position:
            raise FormatError(f"{where}: total size {size} where {MIN_ENTRY_BYTES} to {end - position} is possible")
        if not 0 <= body_length <= size - MIN_ENTRY_BYTES:
            raise FormatError(f"{where}: body length {body_length} does not fit total size {size}")
        body_at = position + _HEAD.size
        length_at = body_at + body_length
        length = _LENGTH.unpack_from(view, length_at)[0]
        if length != size - MIN_ENTRY_BYTES - body_length:
            raise FormatError(
                f"{where}: properties length {length} where {size - MIN_ENTRY_BYTES - body_length} makes up the size"
            )
        position += size
        entries.append(BatchEntry(flag, view[body_at:length_at], bytes(view[length_at + 2 : position])))
    return entries


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Encode entries as a client does, with magic and crc 0.

    Raises:
        FormatError: properties are longer than 32,767 bytes.
    """
    parts: list[bytes | memoryview] = []
    for flag, body, properties in entries:
        if len(properties) > 32767:
            raise FormatError(f"properties of {len(properties)} bytes; an entry holds at most 32767")
        parts.append(_HEAD.pack(MIN_ENTRY_BYTES + len(body) + len(properties), 0, 0, flag, len(body)))
        parts.append(body)
        parts.append(_LENGTH.pack(len(properties)))
        parts.append(properties)
    return b"".join(parts)


def _nothing(text: bytes) -> None:
    """Find nothing."""


@cache
def _search(names: tuple[bytes, ...]) -> Callable[[bytes], object]:
    """Return a function that finds a property with one of *names* in a text with a separator before it."""
    # one search, because a hostile batch has millions of short properties
    return re.compile(rb"\x02(?:%b)\x01" % b"|".join(map(re.escape, names))).search if names else _nothing


def _plain_entries(body: Buffer, most: int, room: int, names: tuple[bytes, ...], tag_mark: bytes = _TAG_MARK) -> int:
    """Return the number of entries of a batch if all of them are plain, else 0.

    An entry is plain if its lengths are consistent, and its properties are ASCII without zeros, have at most *room*
    bytes with the final separator, no empty tag, and none of *names*.

    Args:
        body: body of the batch.
        most: entries that are allowed.
        room: bytes.
        names: of properties.
        tag_mark: name of the tag with its separator.
    """
    try:
        entries = decode_batch(body, most)
    except FormatError:
        return 0
    asks, tag = _search(names), b"\x02" + tag_mark
    for _, _, text in entries:
        if len(text) + bool(text) > room or not text.isascii() or 0 in text:
            return 0
        pieces = b"\x02" + text
        at = pieces.rfind(tag)
        if (at >= 0 and pieces[at + len(tag) : at + len(tag) + 1] in (b"", b"\x02")) or asks(pieces):
            return 0
    return len(entries)


def plain_entries(body: Buffer, most: int, room: int, names: tuple[bytes, ...]) -> int:
    """See `_plain_entries`."""
    return _count(body, most, room, names, _TAG_MARK)


_count = _plain_entries if speedups.compiled is None else speedups.compiled.plain_entries
