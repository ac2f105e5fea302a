"""The order in which a Java broker writes properties back: the iteration order of its HashMap.

Order is no part of the format, and a reader must not rely on it; it matters where a record of ours shall equal a
record of Java's byte for byte. A broker reads the text of a send header into a HashMap made for 128 entries, puts its
own names behind, and writes the map out:

    bucket = (h ^ h >>> 16) & (buckets - 1),  h = String.hashCode

Buckets go up; names in one bucket stand as they were first put, and putting a name again does not move it. The table
doubles when it holds more than three quarters of its buckets, which keeps the order inside a bucket. Not followed: a
bucket of more than eight names, which Java turns into a tree whose root goes to the front.

Source: java.util.HashMap (hash, resize, putVal); apache/rocketmq common/.../message/MessageDecoder.java
(string2messageProperties, messageProperties2String).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gantrymq.model.java import string_hash

BUCKETS = 128  # new HashMap<>(128) in string2messageProperties
MOST_REMEMBERED = 64  # names of one map; the topics of a group may be thousands


def java_map_order(names: Iterable[str], buckets: int = BUCKETS) -> list[str]:
    """Return *names* as a Java HashMap iterates them.

    Args:
        names: in the order they are put; of equal names the first counts.
        buckets: size of the empty map's table, a power of two.
    """
    given = tuple(names)
    return list(_lately(given, buckets) if len(given) <= MOST_REMEMBERED else _order(given, buckets))


def ordered_text(properties: Mapping[str, str], buckets: int = BUCKETS) -> bytes:
    """Properties as bytes, in the order a Java broker writes them; *buckets* as of `java_map_order`."""
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
"""One producer's messages mostly carry the same names."""
