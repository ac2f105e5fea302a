"""Order in which a Java broker writes properties: the iteration order of its HashMap.

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

from collections.abc import Iterable, Mapping
from functools import lru_cache

from gantrymq.model.java import string_hash

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
