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
from typing import Final, NamedTuple

import attrs

from gantrymq import speedups
from gantrymq.client.errors import OptionUnusable
from gantrymq.client.message import Message
from gantrymq.errors import BodyTooLarge, ClientError
from gantrymq.formats.batch_body import MIN_ENTRY_BYTES, BatchEntry, decode_batch, encode_batch
from gantrymq.formats.compression import import_package
from gantrymq.model import properties as property_text
from gantrymq.model.ids import UniqueIds, unique_id
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
_INT32: Final = 1 << 31
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


PlainBatch = tuple[bytes, tuple[str, ...]]  # body and unique ids


class _Entry(NamedTuple):
    """A message of a batch."""

    body: bytes  # of a batch of this message alone
    unique_id: str
    single: EncodedMessage | None  # None if it can be decoded from the body


class BatchBuilder:
    """Collects messages of one topic and one ``wait_stored`` for a batch.

    Attributes:
        messages: the original messages.
        size: bytes of the batch body.
    """

    __slots__ = ("_entries", "messages", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.size = 0
        self._entries: list[_Entry] = []

    def add(self, message: Message, entry: _Entry) -> None:
        """Add a message with its `batch_entry`."""
        self.messages.append(message)
        self._entries.append(entry)
        self.size += len(entry.body)

    def subset(self, numbers: Iterable[int]) -> BatchBuilder:
        """Return a builder with the messages at the positions *numbers*."""
        found = BatchBuilder()
        for number in numbers:
            found.add(self.messages[number], self._entries[number])
        return found

    def first(self) -> EncodedMessage:
        """Return the first message encoded alone."""
        entry = self._entries[0]
        if entry.single is not None:
            return entry.single
        ((flag, body, text),) = decode_batch(entry.body)
        properties = property_text.decode(text)
        return EncodedMessage(self.messages[0].topic, bytes(body), properties, flag, 0, (entry.unique_id,))

    def build(self, ids: UniqueIds, *, inner: bool = False) -> EncodedMessage:
        """Return the batch, see `_batch`."""
        body = b"".join([entry.body for entry in self._entries])
        return _batch(self.messages, body, tuple([entry.unique_id for entry in self._entries]), ids, inner=inner)


def batch_entry(message: Message, ids: UniqueIds) -> _Entry:
    """Encode one validated message for `BatchBuilder.add`; later changes to it have no effect."""
    own_id = ids.take(1)
    if (plain := encode_plain((message,), *own_id, _INT32 - 1)) is not None:
        return _Entry(plain[0], plain[1][0], None)
    single = prepare(message, lambda: unique_id(*own_id))
    text = property_text.encode(single.properties)
    return _Entry(encode_batch((BatchEntry(single.flag, single.body, text),)), single.unique_ids[0], single)


def prepare_batch(
    messages: Sequence[Message],
    ids: UniqueIds,
    max_bytes: int,
    plain: PlainBatch | None = None,
    *,
    inner: bool = False,
) -> EncodedMessage:
    """Encode validated messages as one batch; every message gets a unique id.

    Args:
        messages: of the batch.
        ids: creates the unique ids.
        max_bytes: maximum size of the batch body.
        plain: from `prepare_plain`.
        inner: see `_batch`.

    Raises:
        MessageIllegal: the batch body is longer than *max_bytes*.
    """
    if plain is not None:
        return _batch(messages, *plain, ids, inner=inner)
    parts = BatchBuilder()
    for message in messages:
        parts.add(message, batch_entry(message, ids))
    if parts.size > max_bytes:
        raise BodyTooLarge(
            f"a batch of {len(messages)} messages takes {parts.size} bytes, the longest allowed is {max_bytes} "
            "(max_message_bytes); send it as several batches (send_batches)"
        )
    return parts.build(ids, inner=inner)


def prepare_plain(messages: Sequence[Message], ids: UniqueIds, max_bytes: int) -> PlainBatch | None:
    """Encode plain messages, validated or not, as the body of one batch of at most *max_bytes*; see `_encode_plain`."""
    is_known = type(messages) in (list, tuple)
    return encode_plain(messages, *ids.take(len(messages)), max_bytes) if is_known else None


def _batch(
    messages: Sequence[Message], body: bytes, unique_ids: tuple[str, ...], ids: UniqueIds, *, inner: bool
) -> EncodedMessage:
    """Return a batch.

    Args:
        messages: of the batch.
        body: of the batch.
        unique_ids: of the messages.
        ids: for the batch itself.
        inner: the topic has batch queues. Messages with different tags, or with more keys than fit, become an
            ordinary batch even then, because brokers filter and index an inner batch as one message.
    """
    first = messages[0]
    envelope = {property_text.WAIT: "true" if first.wait_stored else "false"}
    if inner:
        envelope |= _inner_batch_properties(messages, ids.next)
    return EncodedMessage(first.topic, body, envelope, 0, 0, unique_ids, batch=True)


def _encode_plain(
    messages: Sequence[Message], head: str, elapsed_ms: int, counter: int, most: int
) -> PlainBatch | None:
    """Encode *messages* as the body of one batch of at most *most* bytes, if all are plain and can be in one batch.

    A message is plain if it passes `validation.check_message`, apart from its topic and the size of its body, has no
    delay, and its properties are at most a tag and one text of keys.

    Args:
        messages: a list or tuple.
        head: see `unique_id`.
        elapsed_ms: see `unique_id`.
        counter: of the first message; that of each other one is one more.
        most: bytes.

    Returns:
        The body and the unique ids; None if a message is not plain, or the body would be longer.
    """
    if type(messages) not in (list, tuple) or not 0 < len(messages) <= 0xFFFF:
        return None
    if not all(_is_plain(message, messages[0]) for message in messages):
        return None
    unique_ids = tuple([unique_id(head, elapsed_ms, counter + number) for number in range(len(messages))])
    entries: list[BatchEntry] = []
    for message, own_id in zip(messages, unique_ids, strict=True):
        text = property_text.encode({**message.all_properties(), property_text.UNIQ_KEY: own_id})
        if len(text) > property_text.MAX_BYTES:
            return None
        entries.append(BatchEntry(message.flag, message.body, text))
    body = encode_batch(entries)
    return (body, unique_ids) if len(body) <= most else None


def _is_plain(message: Message, first: Message) -> bool:
    return (
        type(message) is Message
        and type(first) is Message
        and type(message.topic) is type(first.topic) is str
        and message.topic == first.topic
        and type(message.body) is bytes
        and message.body != b""
        and message.wait_stored is first.wait_stored
        and type(message.wait_stored) is bool
        and message.properties == message.system_properties == {}
        and type(message.properties) is type(message.system_properties) is dict
        and message.delay_ms is None
        and message.deliver_at_ms is None
        and type(message.delay_level) is int
        and message.delay_level == 0
        and type(message.flag) is int
        and -_INT32 <= message.flag < _INT32
        and _is_plain_text(message.keys)
        and _is_plain_text(message.tags)
    )


def _is_plain_text(text: object) -> bool:
    if type(text) is not str:
        return text is None
    try:
        found = text.encode()
    except UnicodeEncodeError:
        return False
    return 1 not in found and 2 not in found


encode_plain = (
    _encode_plain
    if speedups.compiled is None
    else speedups.compiled.MessageEncoder(
        Message,
        tuple(
            text.encode()
            for text in (
                *(f"{name}\x01" for name in (property_text.KEYS, property_text.TAGS, property_text.WAIT)),
                f"{property_text.UNIQ_KEY}\x01",
                "true",
                "false",
            )
        ),
        property_text.MAX_BYTES,
    )
)


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
