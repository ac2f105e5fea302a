"""The Bloom filter over groups: the bits of each group in a message's bit map.

    k = ceil(log2(1 / f))                     bits of a group, from the error rate f
    m = ceil(n * log2(1 / f) * log2(e))       bits in all, for n groups, rounded up to whole bytes
    position i of 1 to k = |h1 + i * h2| % m  of the text GROUP#TOPIC

h1 and h2 are the low and the high half of the first 64 bits of murmur3 (128 bits, x64, seed 0). The sum wraps at 32
bits, and the bars are Java's ``~`` of a negative number. Bit i of a map is bit ``i % 8`` of byte ``i / 8``, so a map is
a little-endian number.

Source: apache/rocketmq filter/.../util/BloomFilter.java, BitsArray.java, BloomFilterData.java.
"""

from __future__ import annotations

from math import ceil, e, log

import attrs
import mmh3

__all__ = ["BloomFilter", "GroupBits"]

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
