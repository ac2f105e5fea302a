"""Java's string hash, used by RocketMQ's formats and protocols."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1024)
def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: ``h = 31 * h + unit`` over UTF-16 units, wrapped to signed 32 bits.

    >>> string_hash("TagA")
    2598919
    """
    found = hash_units(utf16_units(text))
    return found - 0x100000000 if found & 0x80000000 else found


def hash_units(units: Iterable[int], before: int = 0) -> int:
    """Return the hash of *units* as an unsigned 32-bit number.

    Args:
        units: UTF-16 units; for ASCII text these are its bytes.
        before: the hash of the preceding units.
    """
    found = before
    for unit in units:
        found = (31 * found + unit) & 0xFFFFFFFF
    return found


def utf16_units(text: str) -> Iterable[int]:
    """Return the UTF-16 units of *text*, lone surrogates included."""
    if text.isascii():
        return text.encode("ascii")
    raw = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(raw) // 2}H", raw)
