"""Java's string hash, and the iteration order of its HashMap, in which a Java broker writes properties.

The order is not part of the format, and readers must not depend on it. It is needed for records that equal those of a
Java broker byte for byte. A broker decodes the properties of a send header into a HashMap for 128 entries, adds its
own names, and writes the map:

    bucket = (h ^ h >>> 16) & (buckets - 1),  h = String.hashCode

Buckets are visited in ascending order; names in one bucket keep the order of their first insertion. The table doubles
if the number of names exceeds three quarters of its buckets, which keeps the order within buckets. Not reproduced:
buckets of more than eight names, which Java converts to trees.

Source: java.util.HashMap (hash, resize, putVal); apache/rocketmq common/.../message/MessageDecoder.java
(string2messageProperties, messageProperties2String).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
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


BUCKETS = 128  # new HashMap<>(128) in string2messageProperties
MOST_REMEMBERED = 64  # largest cached number of names; a group may have thousands of topics


def java_map_order(names: Iterable[str], buckets: int = BUCKETS) -> list[str]:
    """Return *names* in the iteration order of a Java HashMap.

    Args:
        names: in the order of insertion; repeated names are ignored.
        buckets: size of the empty map's table, a power of two.
    """
    given = tuple(names)
    return list(_lately(given, buckets) if len(given) <= MOST_REMEMBERED else _order(given, buckets))


def ordered_text(properties: Mapping[str, str], buckets: int = BUCKETS) -> bytes:
    """Encode properties in the order of a Java broker; *buckets* as in `java_map_order`."""
    text = "".join([f"{name}\x01{properties[name]}\x02" for name in java_map_order(properties, buckets)])
    return text.encode("utf-8", "surrogatepass")


def _order(names: tuple[str, ...], buckets: int) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(names))
    while len(distinct) * 4 > buckets * 3:
        buckets *= 2
    mask = buckets - 1

    def bucket(name: str) -> int:
        h = string_hash(name) & 0xFFFFFFFF
        return (h ^ h >> 16) & mask

    return tuple(sorted(distinct, key=bucket))


_lately = lru_cache(maxsize=512)(_order)
"""Cached, as the messages of one producer mostly have the same names."""
