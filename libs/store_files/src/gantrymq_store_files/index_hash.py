"""Hashes of index keys, and the keys by which a message is indexed.

The hash is Java's ``String.hashCode`` of ``topic#key``, made non-negative, and 0 where Java's ``abs`` fails
(-2147483648). The hash of the part before the key is cached per topic.

Source: apache/rocketmq store/.../index/IndexFile.java (indexKeyHashMethod), IndexService.java (buildKey, buildIndex).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from gantrymq import speedups
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.model import properties as property_text
from gantrymq.model.java import hash_units, utf16_units
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

_UNIQUE, _KEYS, _TAGS = (
    f"{name}\x01".encode() for name in (property_text.UNIQ_KEY, property_text.KEYS, property_text.TAGS)
)
_PAIRS = {mark: b"\x02" + mark for mark in (_UNIQUE, _KEYS, _TAGS)}


def index_hash(topic: str, key: str) -> int:
    """Return the hash of one key, 0 to 2^31 - 1."""
    return _non_negative(hash_units(utf16_units(key), _front(topic)))


def index_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Return the hash of each key under the topic of the same position.

    Args:
        topics: one for each key.
        keys: UTF-8; invalid bytes become U+FFFD, as in Java.
    """
    return [_hash(topic, key) for topic, key in zip(topics, keys, strict=True)]


def _hash(topic: str, key: bytes) -> int:
    if key.isascii():
        return _non_negative(hash_units(key, _front(topic)))
    return index_hash(topic, key.decode("utf-8", "replace"))


@lru_cache(maxsize=16384)
def _front(topic: str) -> int:
    """Return the hash of the text before a topic's keys."""
    return hash_units(utf16_units(f"{topic}#"))


def forget_topics() -> None:
    """Clear the caches, because topics were deleted."""
    _front.cache_clear()
    _tag_hash.cache_clear()


def _non_negative(found: int) -> int:
    return (0x100000000 - found) & 0x7FFFFFFF if found & 0x80000000 else found  # 2^31 becomes 0


def index_keys(properties: bytes, sys_flag: int) -> list[bytes]:
    """Return the keys, UTF-8, of a stored message in the order of its index entries.

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


def tag_hashes(entries: Sequence[DispatchEntry]) -> list[int]:
    """Return for each of *entries* the hash of its tag's key (``T#tag``), which 5.5.0 adds after its other keys.

    It is -1 without a tag, and for rolled back messages, which have no keys.
    """
    return [
        -1
        if entry[7] & TRANSACTION_MASK == TRANSACTION_ROLLBACK or not (tag := _value(entry[9], _TAGS))
        else _tag_hash(entry[0], tag)
        for entry in entries
    ]


@lru_cache(maxsize=16384)
def _tag_hash(topic: str, tag: bytes) -> int:
    return _hash(topic, b"T#" + tag)


def _hash_entries(entries: Sequence[DispatchEntry]) -> tuple[list[int], list[int], list[int]]:
    """Return hash, log offset and store timestamp (ms) of every key of *entries*, in order."""
    hashes: list[int] = []
    offsets: list[int] = []
    timestamps: list[int] = []
    for entry in entries:
        for key in index_keys(entry[9], entry[7]):
            hashes.append(_hash(entry[0], key))
            offsets.append(entry[3])
            timestamps.append(entry[6])
    return hashes, offsets, timestamps


def _value(properties: bytes, mark: bytes) -> bytes | None:
    """Return the value after *mark* (``name 0x01``) in property text, by the rules of `model.properties`."""
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
    text = property_text.decode(properties).get(mark[:-1].decode())  # an earlier value replaces an empty one
    return text.encode("utf-8", "surrogatepass") if text else None


def _hash_entry(entry: DispatchEntry) -> list[int]:
    """Return the hashes of one entry; called by the compiled version for unusual entries."""
    return _hash_entries((entry,))[0]


hash_entries = (
    _hash_entries
    if speedups.compiled is None
    else partial(speedups.compiled.hash_entries, (_UNIQUE, _KEYS), TRANSACTION_PREPARED, _hash_entry)
)  # this bit is set in rolled back messages, and not in committed ones
