"""Finds one property in stored property bytes without parsing the others.

    name 0x01 value 0x02 name 0x01 value 0x02 ...        the last 0x02 may be missing

The result equals that of parsing all: the last of equal names counts, an empty value is absent, and a value may contain
0x01.

Source: apache/rocketmq common/.../message/MessageDecoder.java (string2messageProperties)
"""

from __future__ import annotations

from collections.abc import Callable

Lookup = Callable[[bytes], bytes | None]


def lookup(name: str) -> Lookup:
    """Return a function that finds the value of property *name* as stored bytes, or None if it is absent.

    Args:
        name: not empty, without 0x01 and 0x02.
    """
    first = name.encode() + b"\x01"
    later = b"\x02" + first
    from_first, from_later = len(first), len(later)

    def find(properties: bytes) -> bytes | None:
        at = properties.rfind(later)
        if at >= 0:
            start = at + from_later
        elif properties.startswith(first):
            start = from_first
        else:
            return None
        end = properties.find(b"\x02", start)
        value = properties[start:end] if end >= 0 else properties[start:]
        return value or before(properties, at)

    def before(properties: bytes, at: int) -> bytes | None:
        """Return the value before the empty pair at *at*; *at* below 0 means the first pair."""
        while at >= 0:
            end = at + 1
            at = properties.rfind(later, 0, end)
            start = at + from_later if at >= 0 else from_first
            if at < 0 and not properties.startswith(first):
                return None
            value = properties[start : properties.find(b"\x02", start)]
            if value:
                return value
        return None

    return find


def cached_lookup(name: str) -> Lookup:
    """As `lookup`, for a property that is looked up repeatedly in the same bytes."""
    find = lookup(name)
    last: tuple[bytes, bytes | None] = (b"", None)

    def find_again(properties: bytes) -> bytes | None:
        nonlocal last
        known, value = last
        if known is not properties:
            value = find(properties)
            last = (properties, value)
        return value

    return find_again
