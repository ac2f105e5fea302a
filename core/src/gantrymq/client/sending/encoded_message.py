"""Messages encoded for sending: unique id, properties, compression, batches. No I/O.

The envelope of a batch has the property WAIT; brokers add the envelope's properties to every message. The envelope of
an inner batch (see `selection.BatchQueueCache`) also has its own UNIQ_KEY and the tag and keys of its messages, by
which the record is found.

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendKernelImpl,
tryToCompressMessage), DefaultMQProducer.java (batch).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from gantrymq.client.errors import OptionUnusable
from gantrymq.client.message import Message
from gantrymq.errors import BodyTooLarge, ClientError
from gantrymq.formats.batch_body import MIN_ENTRY_BYTES, BatchEntry, encode_batch
from gantrymq.formats.compression import import_package
from gantrymq.model import properties as property_text
from gantrymq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    TRANSACTION_PREPARED,
)

_FLAGS = {"zlib": COMPRESSION_ZLIB, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD}


class Compressor:
    """Compresses in one format, at one level."""

    def __init__(self, kind: str = "zlib", level: int = 5) -> None:
        """Load the package of the format.

        Args:
            kind: zlib, which every client reads, lz4 or zstd.
            level: 0 (fastest) to 9 (smallest), as in Java; ignored for LZ4.

        Raises:
            OptionUnusable: unknown kind or level, or the package is not installed.
        """
        if not isinstance(kind, str) or kind not in _FLAGS:
            raise OptionUnusable(f"compression {kind!r} is unknown; known are {', '.join(_FLAGS)}")
        if not isinstance(level, int) or not 0 <= level <= 9:
            raise OptionUnusable(f"compression level {level} is invalid; levels are 0 to 9")
        self.flags = COMPRESSED | _FLAGS[kind]  # for sysFlag
        self._pack = _packer(kind, level)

    def pack(self, body: bytes) -> tuple[bytes, int]:
        """Return the body to send and its sysFlag bits: compressed, or unchanged with 0 if compression does not shorten
        it.
        """
        packed = self._pack(body)
        return (packed, self.flags) if len(packed) < len(body) else (body, 0)


def _packer(kind: str, level: int) -> Callable[[bytes], bytes]:
    if kind == "zlib":
        return lambda body: zlib.compress(body, level)
    try:
        if kind == "lz4":
            lz4 = import_package("lz4.frame", "lz4", "LZ4")
            return lambda body: bytes(lz4.compress(body))
        zstandard = import_package("zstandard", "zstandard", "Zstandard")
    except ClientError as problem:
        raise OptionUnusable(f"compression {kind}: {problem}") from None
    return lambda body: bytes(zstandard.ZstdCompressor(level=level).compress(body))  # not thread-safe, so one per call


_MOST_KEYS_BYTES = property_text.MAX_BYTES // 2  # of an inner batch; leaves room for properties that brokers add
_ENTRY_BYTES = (
    MIN_ENTRY_BYTES + len("UNIQ_KEY") + 2 + 56
)  # of a message in a batch in addition to body and properties, including its id


@attrs.define  # not frozen, which would triple the construction time
class EncodedMessage:
    """A message or batch as every attempt sends it. Do not modify."""

    topic: str
    body: bytes  # compressed if sys_flag says so
    properties: dict[str, str]
    flag: int
    sys_flag: int
    unique_ids: tuple[str, ...]  # of each message of a batch
    batch: bool = False


def prepare(message: Message, next_id: Callable[[], str]) -> EncodedMessage:
    """Encode one validated message without compression; the message itself is not modified.

    Args:
        message: to send; an existing UNIQ_KEY property is kept.
        next_id: generates a unique id.
    """
    properties = message.all_properties()
    unique_id = properties.setdefault(property_text.UNIQ_KEY, "") or next_id()
    properties[property_text.UNIQ_KEY] = unique_id
    sys_flag = TRANSACTION_PREPARED if properties.get(property_text.TRAN_MSG) == "true" else 0
    return EncodedMessage(message.topic, bytes(message.body), properties, message.flag, sys_flag, (unique_id,))


def compressed(encoded: EncodedMessage, compressor: Compressor) -> EncodedMessage:
    """Return *encoded* with its body compressed, if that makes it shorter."""
    body, flags = compressor.pack(encoded.body)
    return attrs.evolve(encoded, body=body, sys_flag=encoded.sys_flag | flags)


def entry_of(single: EncodedMessage) -> BatchEntry:
    """Return an encoded message as an entry of a batch."""
    return BatchEntry(single.flag, single.body, property_text.encode(single.properties))


def entry_bytes(entry: BatchEntry) -> int:
    """Return the size of *entry* in the body of a batch."""
    return MIN_ENTRY_BYTES + len(entry.body) + len(entry.properties)


class BatchBuilder:
    """Collects messages of one topic and one ``wait_stored`` for a batch.

    Attributes:
        messages: the original messages.
        singles: the encoded messages.
        size: bytes of the batch body.
    """

    __slots__ = ("_entries", "messages", "singles", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.singles: list[EncodedMessage] = []
        self.size = 0
        self._entries: list[BatchEntry] = []

    def add(self, message: Message, single: EncodedMessage, entry: BatchEntry) -> None:
        """Add a message with its encoded form and `entry_of` that."""
        self.messages.append(message)
        self.singles.append(single)
        self._entries.append(entry)
        self.size += entry_bytes(entry)

    def subset(self, numbers: Iterable[int]) -> BatchBuilder:
        """Return a builder with the messages at the positions *numbers*."""
        found = BatchBuilder()
        for number in numbers:
            found.add(self.messages[number], self.singles[number], self._entries[number])
        return found

    def build(self, next_id: Callable[[], str], *, inner: bool = False) -> EncodedMessage:
        """Return the batch.

        Args:
            next_id: generates a unique id.
            inner: the topic has batch queues. Messages with different tags, or with more keys than fit, become an
                ordinary batch even then, because brokers filter and index an inner batch as one message.
        """
        first = self.messages[0]
        envelope = {property_text.WAIT: "true" if first.wait_stored else "false"}
        if inner:
            envelope |= _inner_batch_properties(self.messages, next_id)
        unique_ids = tuple([each for single in self.singles for each in single.unique_ids])
        return EncodedMessage(first.topic, encode_batch(self._entries), envelope, 0, 0, unique_ids, batch=True)


def prepare_batch(
    messages: Sequence[Message], next_id: Callable[[], str], max_bytes: int, *, inner: bool = False
) -> EncodedMessage:
    """Encode validated messages as one batch; every message gets a unique id. Arguments as for `BatchBuilder.build`.

    Raises:
        MessageIllegal: the batch body is longer than *max_bytes*.
    """
    parts = BatchBuilder()
    for message in messages:
        single = prepare(message, next_id)
        parts.add(message, single, entry_of(single))
    if parts.size > max_bytes:
        raise BodyTooLarge(
            f"a batch of {len(messages)} messages takes {parts.size} bytes, the longest allowed is {max_bytes} "
            "(max_message_bytes); send it as several batches (send_batches)"
        )
    return parts.build(next_id, inner=inner)


def _inner_batch_properties(messages: Sequence[Message], next_id: Callable[[], str]) -> dict[str, str]:
    """Return the extra envelope properties of an inner batch; empty if *messages* cannot be one."""
    tag = messages[0].tags
    keys = " ".join(dict.fromkeys(key for message in messages for key in _keys(message)))
    if any(message.tags != tag for message in messages) or len(keys.encode()) > _MOST_KEYS_BYTES:
        return {}
    found = {property_text.UNIQ_KEY: next_id(), property_text.TAGS: tag, property_text.KEYS: keys}
    return {name: value for name, value in found.items() if value}


def _keys(message: Message) -> Sequence[str]:
    return (message.keys or "").split() if isinstance(message.keys, str | None) else message.keys


def in_batches(messages: Sequence[Message], max_bytes: int) -> Iterator[list[Message]]:
    """Split *messages* into runs of one topic that fit into *max_bytes*; a single message is always accepted."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        own = len(message.body) + len(property_text.encode(message.all_properties())) + _ENTRY_BYTES
        if batch and (
            size + own > max_bytes or (message.topic, message.wait_stored) != (batch[0].topic, batch[0].wait_stored)
        ):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += own
    if batch:
        yield batch
