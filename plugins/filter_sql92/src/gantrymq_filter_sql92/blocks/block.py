"""One block: a Bloom filter over the pairs of some properties in a range of queue entries, and its file.

    | magic GFB1 | CRC-32 of the rest u32 | first queue offset i64 | entries u32 | log offset i64 | store time i64 |
    | length of names u16, names separated by 0x01 | pybloom-live's serialized filter |

Log offset and store time are those of the block's last message. If the queue has another message at that offset,
because it was truncated after a crash or deleted and created again, the block is stale. Big-endian except for
pybloom-live's part.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from typing import Final
from zlib import crc32

import attrs
from pybloom_live import BloomFilter

from gantrymq.errors import FormatError
from gantrymq_filter_sql92.blocks.keys import keys_of, pairs_in

__all__ = ["Block", "LastMessage", "build_block", "read_block", "write_block"]

MAGIC: Final = b"GFB1"
_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">qIqqH")
_BODY_AT = len(MAGIC) + _CRC.size


@attrs.frozen
class LastMessage:
    """Identity of a block's messages: the last of them."""

    log_offset: int
    store_timestamp: int  # ms


@attrs.frozen(eq=False)
class Block:
    """Bloom filter of the entries ``[first, first + entries)`` of one queue."""

    first: int  # queue offset
    entries: int
    last: LastMessage
    names: frozenset[str]  # properties whose pairs are in the filter
    bloom: BloomFilter = attrs.field(repr=False)

    @property
    def byte_count(self) -> int:
        """Size of its bits in bytes."""
        return int(self.bloom.num_bits) // 8

    def may_hold(self, keys: Iterable[str]) -> bool:
        """Return whether one of *keys*, all of properties in `names`, may be present; budget 1 us a key."""
        return any(key in self.bloom for key in keys)


def build_block(
    first: int, entries: int, last: LastMessage, texts: Iterable[bytes], names: frozenset[str], error_percent: int
) -> Block:
    """Build a block from the property bytes *texts*. Runs in a thread: 2 us per message and distinct pair."""
    wanted = sorted(name.encode() for name in names)
    pairs = {pair for text in texts for pair in pairs_in(text, wanted)}
    keys = {key for pair in pairs for key in keys_of(pair)}
    bloom = BloomFilter(max(len(keys), 1), error_percent / 100)
    for key in keys:
        bloom.add(key, skip_check=True)
    return Block(first, entries, last, names, bloom)


def write_block(block: Block) -> bytes:
    """Return the content of a block's file."""
    bits = io.BytesIO()
    block.bloom.tofile(bits)
    names = "\x01".join(sorted(block.names)).encode()
    head = _HEAD.pack(block.first, block.entries, block.last.log_offset, block.last.store_timestamp, len(names))
    body = head + names + bits.getvalue()
    return MAGIC + _CRC.pack(crc32(body)) + body


def read_block(data: bytes) -> Block:
    """Parse the content of a block's file.

    Raises:
        FormatError: the content is damaged or no block.
    """
    body = data[_BODY_AT:]
    if not data.startswith(MAGIC) or len(body) < _HEAD.size or _CRC.unpack_from(data, len(MAGIC))[0] != crc32(body):
        raise FormatError(f"{len(data)} bytes are not a block filter, or a damaged one")
    first, entries, log_offset, store_timestamp, length = _HEAD.unpack_from(body)
    end = _HEAD.size + length
    try:
        names = frozenset(body[_HEAD.size : end].decode().split("\x01"))
        bloom = BloomFilter.fromfile(io.BytesIO(body[end:]))
    except (ValueError, struct.error) as problem:
        raise FormatError(f"a block filter that cannot be read: {problem}") from None
    return Block(first, entries, LastMessage(log_offset, store_timestamp), names, bloom)
