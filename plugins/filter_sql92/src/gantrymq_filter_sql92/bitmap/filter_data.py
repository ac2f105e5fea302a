"""State of one group that filters a topic: its expression, times, and bits.

    {"bloomFilterData":{"bitNum":112,"bitPos":[65,28,103]},"bornTime":..,"clientVersion":..,"consumerGroup":..,
     "dead":true,"deadTime":..,"expression":"price > 100","expressionType":"SQL92","topic":..}

``dead`` follows from the times and is not read. Times are ms since the epoch.

The Bloom filter over groups: the bits of each group in a message's bit map.

    k = ceil(log2(1 / f))                     bits of a group, from the error rate f
    m = ceil(n * log2(1 / f) * log2(e))       bits in all, for n groups, rounded up to whole bytes
    position i of 1 to k = |h1 + i * h2| % m  of the text GROUP#TOPIC

h1 and h2 are the low and the high half of the first 64 bits of murmur3 (128 bits, x64, seed 0). The sum wraps at 32
bits, and the bars are Java's ``~`` of a negative number. Bit i of a map is bit ``i % 8`` of byte ``i / 8``, so a map is
a little-endian number.

Source: apache/rocketmq broker/.../filter/ConsumerFilterData.java.
Source: apache/rocketmq filter/.../util/BloomFilter.java, BitsArray.java, BloomFilterData.java.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from math import ceil, e, log
from typing import Any, Final

import attrs
import mmh3

from gantrymq.plugin.formats import MIN_UNIT_BYTES

_LOW_32 = 0xFFFFFFFF
_SIGN_32 = 0x80000000


@attrs.frozen
class GroupBits:
    """The bits of one group."""

    bit_count: int  # bits of the whole map
    positions: tuple[int, ...]  # in the order of their computation; two may be equal

    @property
    def mask(self) -> int:
        """The map with only these bits set, as a number."""
        mask = 0
        for position in self.positions:
            mask |= 1 << position
        return mask


@attrs.frozen
class BloomFilter:
    """Size of a bit map and number of bits per group."""

    hashes: int  # k
    bit_count: int  # m, a multiple of 8

    @classmethod
    def for_groups(cls, count: int, error_percent: int) -> BloomFilter:
        """Return a filter for *count* groups (at least 1) with *error_percent* (1 to 99) false positives."""
        error_rate = error_percent / 100.0
        bits = ceil(count * (log(1 / error_rate) / log(2)) * (log(e) / log(2)))
        return cls(ceil(log(error_rate) / log(0.5)), 8 * ceil(bits / 8))

    @property
    def byte_count(self) -> int:
        """Size of a map in bytes."""
        return self.bit_count // 8

    def bits_of(self, group: str, topic: str) -> GroupBits:
        """Return the bits of a group on a topic."""
        first, _ = mmh3.hash64(f"{group}#{topic}".encode("utf-8", "replace"), 0, True, signed=False)
        low, high = first & _LOW_32, first >> 32
        return GroupBits(self.bit_count, tuple(self._position(low + i * high) for i in range(1, self.hashes + 1)))

    def fits(self, bits: GroupBits) -> bool:
        """Return whether *bits* belong to a filter of this size."""
        return bits.bit_count == self.bit_count and len(bits.positions) == self.hashes

    def _position(self, combined: int) -> int:
        combined &= _LOW_32
        return (_LOW_32 - combined if combined & _SIGN_32 else combined) % self.bit_count


_HOLDS: Final = {1 << bit: bytes(each >> bit & 1 for each in range(256)) for bit in range(8)}


@lru_cache(maxsize=64)
def _stored_in(size: int, count: int) -> struct.Struct:
    """Reads the store times of ext units."""
    return struct.Struct(">" + f"10xq{size - 18}x" * count)


@attrs.frozen
class FilterData:
    """One group's filter on one topic."""

    topic: str
    group: str
    expression: str
    type: str
    version: int  # the subVersion of the subscription
    born_ms: int  # messages stored later have this group's bits
    dead_ms: int  # time at which the group went offline, 0 while it is online
    bits: GroupBits
    mask: int = attrs.field(init=False, eq=False, repr=False)
    byte_count: int = attrs.field(init=False, eq=False, repr=False)  # bits of a map
    _places: tuple[tuple[int, int], ...] = attrs.field(init=False, eq=False, repr=False)  # byte of a map, bit within it

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "mask", self.bits.mask)
        object.__setattr__(self, "byte_count", self.bits.bit_count // 8)
        object.__setattr__(self, "_places", tuple((each // 8, 1 << each % 8) for each in self.bits.positions))

    @property
    def dead(self) -> bool:
        """Whether the group is offline."""
        return self.dead_ms >= self.born_ms

    def may_match(self, bit_map: bytes, stored_ms: int) -> bool | None:
        """Return whether a message may match by its bits; None if the bits do not cover this group."""
        if stored_ms <= self.born_ms or len(bit_map) != self.byte_count or not bit_map:
            return None
        for at, bit in self._places:  # noqa: SIM110 (a generator takes twice as long)
            if not bit_map[at] & bit:
                return False
        return True

    def may_match_units(self, units: bytes, size: int) -> bytes | None:
        """`may_match` for consecutive ext units of *size* bytes: 1 or 0 each; None if one has no bits of this group.

        Budget: 0.1 us a unit.
        """
        count = len(units) // size
        if size != MIN_UNIT_BYTES + self.byte_count or min(_stored_in(size, count).unpack(units)) <= self.born_ms:
            return None
        found = int.from_bytes(b"\1" * count, "little")
        for at, bit in self._places:
            found &= int.from_bytes(units[MIN_UNIT_BYTES + at :: size].translate(_HOLDS[bit]), "little")
        return found.to_bytes(count, "little")

    def to_json(self) -> dict[str, Any]:
        """Return the members as RocketMQ writes them."""
        return {
            "bloomFilterData": {"bitNum": self.bits.bit_count, "bitPos": list(self.bits.positions)},
            "bornTime": self.born_ms,
            "clientVersion": self.version,
            "consumerGroup": self.group,
            "dead": self.dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.type,
            "topic": self.topic,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any], topic: str, group: str) -> FilterData:
        """Read the entry of *topic* and *group*.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: a member is missing, of the wrong type, or out of range.
        """
        bloom = members["bloomFilterData"]
        bits = GroupBits(int(bloom["bitNum"]), tuple(map(int, bloom["bitPos"])))
        if bits.bit_count <= 0 or bits.bit_count % 8 or not all(0 <= each < bits.bit_count for each in bits.positions):
            raise ValueError(f"positions {list(bits.positions)} of {bits.bit_count} bits")
        return cls(
            topic,
            group,
            str(members["expression"]),
            str(members["expressionType"]),
            int(members.get("clientVersion") or 0),
            int(members.get("bornTime") or 0),
            int(members.get("deadTime") or 0),
            bits,
        )
