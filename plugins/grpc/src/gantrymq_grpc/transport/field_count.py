"""Fields of a large request, counted before it is parsed.

A field takes two bytes on the wire and some 80 in memory: 16 MiB of empty ones would take half a second and 640 MB.

Source: protobuf's encoding, https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import Any, Final

LARGE_BYTES: Final = 64 * 1024  # smaller requests are parsed in a moment whatever they have
MAX_FIELDS: Final = 25_000  # a thousand messages without properties have half as many

_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)


def has_too_many_fields(data: bytes, descriptor: Any) -> bool:
    """Return whether a message has more than `MAX_FIELDS`, with those of its messages.

    Args:
        data: the message. What cannot be read is left to the parser.
        descriptor: of its class.
    """
    count = 0
    waiting = [(0, len(data), descriptor)]
    while waiting:
        position, end, kind = waiting.pop()
        while position < end:
            count += 1
            if count > MAX_FIELDS:
                return True
            key, position = _varint(data, position, end)
            wire = key & 7
            if wire == _LENGTH:
                size, position = _varint(data, position, end)
                field = kind.fields_by_number.get(key >> 3)
                if field is not None and field.message_type is not None and position + size <= end:
                    waiting.append((position, position + size, field.message_type))
                position += size
            elif wire == _VARINT:
                _, position = _varint(data, position, end)
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            elif wire not in (_START_GROUP, _END_GROUP):
                break
    return False


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return a number and the position after it; *end* as the position if it is cut off or too long."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    return 0, end
