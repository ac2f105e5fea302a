"""Hashes of index keys, many at a time, and which keys a message is indexed by.

The hash is Java's ``String.hashCode`` of ``topic#key`` made non-negative, and 0 where Java's ``abs`` cannot
(-2147483648). A key's own hash follows from the topic's by ``hash(topic#) * 31^length + hash(key)``, so the topic is
hashed once.

Keys of a batch are hashed side by side in one long integer: with each character in a lane of its own, neighbours are
joined (``left * 31 + right``), then pairs of those (``* 31^2``), and so on, the lanes doubling each time. A zero in
front changes no hash, so keys are padded to a power of two. This costs 0.2 us a key of 32 characters where a loop over
its characters costs 3.

Source: apache/rocketmq store/.../index/IndexFile.java (indexKeyHashMethod), IndexService.java (buildKey, buildIndex).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache, partial

from gantrymq import speedups
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.model import properties as property_text
from gantrymq.model.java import string_hash
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

__all__ = ["hash_entries", "index_hash", "index_hashes", "index_keys"]

_MASK = 0xFFFFFFFF
_POWERS = [pow(31, n, 2**32) for n in range(256)]
_WIDEST = 256  # longer keys are hashed one by one
_AT_ONCE = 64  # keys in one integer: the larger it is, the less it fits the processor's caches
_UNIQUE, _KEYS = (f"{name}\x01".encode() for name in (property_text.UNIQ_KEY, property_text.KEYS))
_PAIRS = {mark: b"\x02" + mark for mark in (_UNIQUE, _KEYS)}


def index_keys(properties: bytes, sys_flag: int) -> list[bytes]:
    """The keys, UTF-8, by which a stored message is found, in the order of its entries.

    Its unique key comes first, then each part of KEYS. Rolled back messages have none.
    """
    if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    unique = _value(properties, _UNIQUE)
    found = [unique] if unique else []
    if properties.find(_KEYS) >= 0:  # `in` would cost twice as much
        keys = _value(properties, _KEYS)
        if keys:
            found += [key for key in keys.split(b" ") if key] if b" " in keys else [keys]
    return found


def _hash_entries(entries: Sequence[DispatchEntry]) -> tuple[list[int], list[int], list[int]]:
    """Hash, log offset and store timestamp (ms) of every key of *entries*, in order."""
    topics: list[str] = []
    keys: list[bytes] = []
    offsets: list[int] = []
    timestamps: list[int] = []
    for entry in entries:
        for key in index_keys(entry[9], entry[7]):
            topics.append(entry[0])
            keys.append(key)
            offsets.append(entry[3])
            timestamps.append(entry[6])
    return index_hashes(topics, keys), offsets, timestamps


def index_hash(topic: str, key: str) -> int:
    """The hash of one key, 0 to 2^31 - 1."""
    return _settle(string_hash(f"{topic}#{key}") & _MASK)


def index_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """The hash of each key under the topic of the same position.

    Args:
        topics: one for each key.
        keys: UTF-8; bytes that are not become U+FFFD, as Java reads them.
    """
    own = _hashes(keys)
    found = []
    powers = _POWERS
    before, head, length, front = None, 0, -1, 0
    for topic, key, tail in zip(topics, keys, own, strict=True):
        if topic is not before:
            before, head, length = topic, _head(topic), -1
        if tail < 0:  # no ASCII, or very long
            found.append(index_hash(topic, key.decode("utf-8", "replace")))
            continue
        if len(key) != length:
            length = len(key)
            front = head * powers[length]
        whole = (front + tail) & _MASK
        if whole & 0x80000000:
            whole = (0x100000000 - whole) & 0x7FFFFFFF  # 2^31 becomes 0
        found.append(whole)
    return found


@lru_cache(maxsize=16384)
def _head(topic: str) -> int:
    """The hash of what stands before a topic's keys."""
    return string_hash(f"{topic}#")


def _settle(whole: int) -> int:
    return (0x100000000 - whole) & 0x7FFFFFFF if whole & 0x80000000 else whole


def _hashes(keys: Sequence[bytes]) -> list[int]:
    """Java's hash of each key by itself, as 32 bits without a sign; -1 for those that need another way."""
    if keys and len(set(map(len, keys))) == 1 and len(keys[0]) < _WIDEST and b"".join(keys).isascii():
        return _of_width(keys, _width(len(keys[0])))  # unique ids as a rule
    found = [-1] * len(keys)
    groups: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        length = len(key)
        if length < _WIDEST and key.isascii():
            width = _width(length)
            group = groups.get(width)
            if group is None:
                groups[width] = [place]
            else:
                group.append(place)
    for width, places in groups.items():
        for place, value in zip(places, _of_width([keys[place] for place in places], width), strict=True):
            found[place] = value
    return found


def _of_width(keys: Sequence[bytes], width: int) -> list[int]:
    """Hashes of ASCII keys that are at most *width* bytes long."""
    found: list[int] = []
    for first in range(0, len(keys), _AT_ONCE):
        padded = b"".join([key.rjust(width, b"\0") for key in keys[first : first + _AT_ONCE]])
        found += _side_by_side(padded, width)
    return found


def _width(length: int) -> int:
    """Bytes that a key of *length* is padded to."""
    return max(16, 1 << (length - 1).bit_length())


def _side_by_side(padded: bytes, width: int) -> tuple[int, ...]:
    """Hashes of the keys in *padded*, each *width* bytes long, a power of two from 16 on."""
    lanes = int.from_bytes(padded, "big")
    total = len(padded)
    for shift, mask, power, remainder in _steps(total, width):
        lanes = (lanes >> shift & mask) * power + (lanes & mask)
        if remainder:
            lanes &= remainder
    return _lasts(total // width, width).unpack(lanes.to_bytes(total, "big"))


@lru_cache(maxsize=1024)
def _lasts(count: int, width: int) -> struct.Struct:
    """The last four bytes of each of *count* lanes."""
    return struct.Struct(">" + f"{width - 4}xI" * count)


@lru_cache(maxsize=1024)
def _steps(total: int, width: int) -> tuple[tuple[int, int, int, int], ...]:
    """For each doubling of lanes: shift, mask of the right-hand ones, power of 31, and what is kept of the sums.

    Sums stay below their lanes' width: 13 bits in 16, 23 in 32, 43 in 64, 76 in 128; from then on 32 bits are kept.
    """
    steps = []
    lane, power = 1, 1  # bytes of a lane before the step; characters in it
    while lane < width:
        pairs = total // (2 * lane)
        mask = int.from_bytes((b"\0" * lane + b"\xff" * lane) * pairs, "big")
        kept = int.from_bytes((b"\0" * (2 * lane - 4) + b"\xff" * 4) * pairs, "big") if lane >= 8 else 0
        steps.append((lane * 8, mask, pow(31, power, 2**32), kept))
        lane, power = lane * 2, power * 2
    return tuple(steps)


def _value(properties: bytes, mark: bytes) -> bytes | None:
    """The value behind *mark* (``name 0x01``) in stored property text, by the rules of `model.properties`."""
    at = properties.rfind(_PAIRS[mark])
    if at >= 0:
        at += 1
    elif properties.startswith(mark):
        at = 0
    else:
        return None
    start = at + len(mark)
    end = properties.find(b"\x02", start)
    value = properties[start:] if end < 0 else properties[start:end]
    if value:
        return value
    text = property_text.decode(properties).get(mark[:-1].decode())  # an empty value counts as none: an earlier one may
    return text.encode("utf-8", "surrogatepass") if text else None


def _hash_entry(entry: DispatchEntry) -> list[int]:
    """The hashes of one entry, for its twin, which hashes nothing unusual itself."""
    return _hash_entries((entry,))[0]


hash_entries = (
    _hash_entries
    if speedups.compiled is None
    else partial(speedups.compiled.hash_entries, (_UNIQUE, _KEYS), TRANSACTION_MASK, _hash_entry)
)
