"""Java semantics that RocketMQ's formats and protocols rely on."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=8192)
def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: ``h = 31 * h + unit`` over UTF-16 units, wrapped to signed 32 bits.

    >>> string_hash("TagA")
    2598919
    """
    h = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            h = (31 * h + unit) & 0xFFFFFFFF
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(raw), 2):
            h = (31 * h + (raw[i] << 8 | raw[i + 1])) & 0xFFFFFFFF
    return h - 0x100000000 if h & 0x80000000 else h


def remainder(dividend: int, divisor: int) -> int:
    """Return Java's ``dividend % divisor``, whose sign is the dividend's."""
    result = abs(dividend) % abs(divisor)
    return -result if dividend < 0 else result
