"""Messages: from a request to the sends of the broker, and from a record to what a client receives.

A body that is handed out is plain, with the MD5 of these bytes: some SDKs cannot read zlib, LZ4 or Zstandard, which
remoting producers use. A body that a client sent with gzip is stored as zlib, which all consumers can read. Both can
take as long as decompressing 64 MiB (`formats.MAX_BODY_BYTES`): see `is_compressed`.

Source: apache/rocketmq proxy/.../grpc/v2/common/GrpcConverter.java, producer/SendMessageActivity.java,
processor/ProducerProcessor.java.
"""

import hashlib
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import MAX_BODY_BYTES, RecordView, decompress_or_raw
from gantrymq.plugin.interfaces import SendRequest
from gantrymq.plugin.model import Principal, host_text, offset_id
from gantrymq.plugin.sys_flag import COMPRESSED, COMPRESSION_MASK, TRANSACTION_PREPARED
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.conversion.times import birth_ms, duration_ms, set_ms, timestamp_ms
from gantrymq_grpc.conversion.validation import SYSTEM_PROPERTIES
from gantrymq_grpc.definitions import Code, DigestType, Encoding, Message, MessageType, SystemProperties

CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
RECONSUME_TIME = "RECONSUME_TIME"
TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

_MOST_ATTEMPTS = 2**31 - 1
_MOST_PRIORITY, _MOST_DIGITS = 2**31 - 1, 10
_GZIP = b"\x1f\x8b"
_ZLIB_HEADS = (b"\x78\x9c", b"\x78\x01", b"\x78\x5e", b"\x78\xda")  # by level of compression
_ANY_HEAD = 32 + zlib.MAX_WBITS  # zlib's word for both formats
_DELAYS = (props.DELAY, props.TIMER_DELIVER_MS, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS)


class Sender(NamedTuple):
    """What the sends of one call have in common."""

    peer: tuple[str, int]
    born_host: bytes  # *peer*, packed
    principal: Principal | None


# --- from requests ---------------------------------------------------------------------------------------------------


def is_compressed(messages: Sequence[Message]) -> bool:
    """Return whether `send_requests` of these messages may take long and should be called in a thread."""
    return any(each.system_properties.body_encoding == Encoding.GZIP for each in messages)


def send_requests(messages: Sequence[Message], topic: str, sender: Sender, now_ms: int) -> list[SendRequest]:
    """Return the sends of *messages*, which have passed `validation.check_messages`.

    Raises:
        Refused: a compressed body cannot be read.
    """
    return [_send_request(message, topic, sender, now_ms) for message in messages]


def _send_request(message: Message, topic: str, sender: Sender, now_ms: int) -> SendRequest:
    system = message.system_properties
    body, flags = message.body, 0
    if system.body_encoding == Encoding.GZIP:
        body, flags = stored_body(body)
    if system.message_type == MessageType.TRANSACTION:
        flags |= TRANSACTION_PREPARED
    born_ms = birth_ms(system.born_timestamp, now_ms) if system.HasField("born_timestamp") else now_ms
    text = props.encode_text(_properties(message, system, topic, sender))
    return SendRequest(
        topic, topic, body, text, -1, 0, flags, born_ms, sender.born_host, sender.peer, principal=sender.principal
    )


def _properties(message: Message, system: SystemProperties, topic: str, sender: Sender) -> dict[str, str]:
    """Return the properties of a sent message.

    The time of its birth is a field of the record and no property, unlike RocketMQ's BORN_TIMESTAMP: the broker keeps
    what it computed for equal properties.
    """
    user = message.user_properties
    found = {name: user[name] for name in user}
    if tag := system.tag:
        found[props.TAGS] = tag
    if keys := system.keys:
        found[props.KEYS] = " ".join(keys)
    found[props.UNIQ_KEY] = system.message_id
    found[props.PRODUCER_GROUP] = topic  # a transaction is checked with any producer of the topic
    found[BORN_HOST] = system.born_host if system.born_host.strip() else sender.peer[0]
    if system.message_type == MessageType.TRANSACTION:
        found[props.TRAN_MSG] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            name, asked = "orphaned_transaction_recovery_duration", system.orphaned_transaction_recovery_duration
            found[CHECK_IMMUNITY_TIME] = str(duration_ms(asked, name, Code.BAD_REQUEST) // 1000)
    if system.HasField("delivery_timestamp"):
        due_ms = timestamp_ms(system.delivery_timestamp, "delivery_timestamp", Code.ILLEGAL_DELIVERY_TIME)
        found[props.TIMER_DELIVER_MS] = str(due_ms)
    if system.HasField("priority"):
        found[props.PRIORITY] = str(system.priority)
    if attempt := system.delivery_attempt:
        found[RECONSUME_TIME] = str(attempt)
    if group := system.message_group:
        found[props.SHARDING_KEY] = group
    if lite_topic := system.lite_topic:
        found[props.LITE_TOPIC] = lite_topic
    if trace_context := system.trace_context:
        found[TRACE_CONTEXT] = trace_context
    return found


def stored_body(body: bytes) -> tuple[bytes, int]:
    """Return a body that a client calls GZIP as it is stored, and the flag of compressed bodies.

    A gzip stream becomes a zlib stream of the same compressed data, and a zlib stream is kept. A body that begins like
    neither is plain: RocketMQ's proxy takes it too, and SDKs that look at the first bytes read it.

    Raises:
        Refused: a stream is damaged, or grows beyond `MAX_BODY_BYTES`.
    """
    is_gzip = body.startswith(_GZIP)
    if not is_gzip and not body.startswith(_ZLIB_HEADS):
        return body, 0
    plain = _plain_of_stream(body)
    if not is_gzip:
        return body, COMPRESSED
    checksum = zlib.adler32(plain)
    return _ZLIB_HEADS[0] + body[_gzip_head(body) : -8] + checksum.to_bytes(4, "big"), COMPRESSED


def _plain_of_stream(body: bytes) -> bytes:
    """Return the content of a gzip or zlib stream."""
    stream = zlib.decompressobj(wbits=_ANY_HEAD)
    try:
        plain = stream.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise Refused(Code.MESSAGE_CORRUPTED, f"the body is not a readable gzip stream: {error}") from None
    if len(plain) > MAX_BODY_BYTES:
        raise Refused(Code.MESSAGE_BODY_TOO_LARGE, f"the body grows beyond {MAX_BODY_BYTES} bytes when decompressed")
    if not stream.eof or stream.unused_data:
        raise Refused(Code.MESSAGE_CORRUPTED, "the gzip stream of the body ends before or after the end of the body")
    return plain


def _gzip_head(body: bytes) -> int:
    """Return the length of the head of a readable gzip stream. Source: RFC 1952, 2.3."""
    flags, at = body[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(body[at : at + 2], "little")
    for bit in (8, 16):  # name and comment, which end with a zero
        if flags & bit:
            at = body.index(0, at) + 1
    return at + 2 if flags & 2 else at


# --- to clients -------------------------------------------------------------------------------------------------------


class Body(NamedTuple):
    """The body of a record as clients get it."""

    data: bytes
    encoding: Encoding


def body_of(record: RecordView) -> Body:
    """Return the plain body of *record*, or the stored one if it cannot be decompressed.

    Call it in a thread if `record.sys_flag` has COMPRESSED.
    """
    flags = record.sys_flag
    if not flags & COMPRESSED:
        return Body(bytes(record.body), Encoding.IDENTITY)
    if not flags & COMPRESSION_MASK and record.body[:2] == _GZIP:  # stored by RocketMQ's proxy
        try:
            return Body(_plain_of_stream(bytes(record.body)), Encoding.IDENTITY)
        except Refused:
            return Body(bytes(record.body), Encoding.GZIP)
    data, problem = decompress_or_raw(record.body, flags)
    return Body(data, Encoding.GZIP if problem else Encoding.IDENTITY)


def write_message(
    message: Message, record: RecordView, body: Body, *, topic: str, attempt: int, receipt_handle: str = ""
) -> None:
    """Set the fields of an empty *message*, perhaps one within another message, which saves a copy.

    Args:
        body: of the record, see `body_of`.
        topic: the topic that the client knows: not the retry topic or the topic of half messages.
        attempt: number of this delivery, from 1.
        receipt_handle: of a popped message.
    """
    own = record.properties
    message.topic.name = topic
    message.body = body.data
    user = message.user_properties
    for name in own.keys() - SYSTEM_PROPERTIES:
        user[name] = own[name]
    system = message.system_properties
    if (tag := own.get(props.TAGS)) is not None:
        system.tag = tag
    if keys := own.get(props.KEYS):
        system.keys.extend(keys.split(" "))
    system.message_id = own.get(props.UNIQ_KEY) or offset_id(bytes(record.store_host), record.log_offset)
    digest = system.body_digest
    digest.type = DigestType.MD5
    digest.checksum = hashlib.md5(body.data, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = body.encoding
    system.message_type = _type(own)
    set_ms(system.born_timestamp, record.born_timestamp)
    system.born_host = own.get(BORN_HOST) or _host(bytes(record.born_host)).rpartition(":")[0].strip("[]")
    set_ms(system.store_timestamp, record.store_timestamp)
    system.store_host = _host(bytes(record.store_host))
    if (due_ms := _due_ms(own, record)) is not None:
        set_ms(system.delivery_timestamp, due_ms)
    if (group := own.get(props.SHARDING_KEY)) is not None:
        system.message_group = group
    if (priority := _priority(own)) is not None:
        system.priority = priority
    if lite_topic := own.get(props.LITE_TOPIC):
        system.lite_topic = lite_topic
    if receipt_handle:
        system.receipt_handle = receipt_handle
    system.queue_id = record.queue_id
    system.queue_offset = record.queue_offset
    system.delivery_attempt = min(attempt, _MOST_ATTEMPTS)
    if (trace_context := own.get(TRACE_CONTEXT)) is not None:
        system.trace_context = trace_context
    origin, origin_id = own.get(DLQ_ORIGIN_TOPIC), own.get(DLQ_ORIGIN_MESSAGE_ID)
    if origin is not None and origin_id is not None:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = origin_id


def _type(own: dict[str, str]) -> MessageType:
    if own.get(props.TRAN_MSG) == "true":
        return MessageType.TRANSACTION
    if not own.keys().isdisjoint(_DELAYS):
        return MessageType.DELAY
    if props.SHARDING_KEY in own:
        return MessageType.FIFO
    if props.PRIORITY in own:
        return MessageType.PRIORITY
    return MessageType.LITE if props.LITE_TOPIC in own else MessageType.NORMAL


def _priority(own: dict[str, str]) -> int | None:
    """Return the priority of a message; None without one, and if its property is not a number of 32 bits."""
    text = own.get(props.PRIORITY, "")
    priority = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else _MOST_PRIORITY + 1
    return priority if priority <= _MOST_PRIORITY else None


def _due_ms(own: dict[str, str], record: RecordView) -> int | None:
    """Return the delivery time of a delayed message; None for other messages, and if its property is not a number."""
    for name, unit_ms, since in (
        (props.TIMER_DELAY_SEC, 1000, record.born_timestamp),
        (props.TIMER_DELAY_MS, 1, record.born_timestamp),
        (props.TIMER_DELIVER_MS, 1, 0),
    ):
        text = own.get(name)
        if text is not None and text.isdecimal() and len(text) < 16:
            return since + int(text) * unit_ms
    return None


@lru_cache(maxsize=1024)
def _host(packed: bytes) -> str:
    return host_text(packed)
