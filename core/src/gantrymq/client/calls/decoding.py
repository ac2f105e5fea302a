"""Decoding of the records in a pull response. Readers get past any record:

    record                                             decoded as
    --------------------------------------------------------------------------------------------------------------
    complete                                           the message, decompressed
    an inner batch (topics with queue.type=BatchCQ)    its messages; queue offsets count up from the batch's offset
    a body that cannot be decompressed or split        the message with the stored body; `body_problem` has the reason
    a body with a wrong check sum (if checked)         the same
    a compressed body larger than `max_body_bytes`     the message with the beginning of the body and `body_problem`;
                                                       an inner batch is not split
    an incomplete or corrupt record                    its bytes as a body without topic; `body_problem` has the reason;
                                                       offsets are -1 if the bytes do not contain them

Sources: apache/rocketmq common/.../message/MessageDecoder.java (decode, decodeMessage), client/.../impl/consumer/
PullAPIWrapper.java (processPullResult).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from struct import Struct, calcsize

import attrs

from gantrymq import speedups
from gantrymq.client.argument_types import check_text
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError, FormatError
from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.compression import MAX_BODY_BYTES, decompress_or_raw
from gantrymq.formats.record import (
    HEAD_FIELDS,
    HEAD_V4,
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    Buffer,
    RecordView,
    body_crc,
    read_record,
)
from gantrymq.model import ids
from gantrymq.model import properties as property_text
from gantrymq.model.hosts import host_text
from gantrymq.model.properties import TAGS
from gantrymq.model.sys_flag import BORN_HOST_V6, COMPRESSED, INNER_BATCH, NEED_UNWRAP, STORE_HOST_V6

_INNER = INNER_BATCH | NEED_UNWRAP
_ODD = COMPRESSED | INNER_BATCH | NEED_UNWRAP
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_PLACES = {name: place for place, (name, _) in enumerate(HEAD_FIELDS)}
_FLAGS = Struct(">i")
_FLAGS_AT = calcsize(">" + "".join(letters for _, letters in HEAD_FIELDS[: _PLACES["sys_flag"]]))


def parse_tags(expression: str) -> frozenset[str]:
    """Return the tags of ``TagA || TagB``; empty for ``*`` and for an empty expression, which match every message.

    Raises:
        ClientError: separators without any tag, or not a text.
    """
    check_text("the expression", expression)
    if expression.strip() in ("", "*"):
        return frozenset()
    tags = frozenset(tag.strip() for tag in expression.split("||") if tag.strip())
    if not tags:
        raise ClientError(f"the tag expression {expression!r} names no tag; write TagA || TagB, or * for all")
    return tags


def decode_messages(
    body: bytes,
    broker_name: str,
    tags: Collection[str] = (),
    offset_delta: int = 0,
    first_offset: int = 0,
    unwrap: Callable[[str], str] | None = None,
    *,
    check_crcs: bool = False,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Iterator[ReceivedMessage]:
    """Decode the body of a pull response in order, splitting inner batches; see the table above.

    The broker compares hashes of tags only, so with *tags* a message is kept only if its tag is among them.

    Args:
        body: consecutive records.
        broker_name: broker that sent them.
        tags: tags to keep; empty for all.
        offset_delta: added to every queue offset (static topics).
        first_offset: requested offset; earlier messages of an inner batch are dropped.
        unwrap: removes the client's namespace from a topic, see `namespaces`; None without one.
        check_crcs: whether to compare each stored body with the check sum in its record.
        max_body_bytes: how much of a compressed body is decompressed.
    """
    found = _decode_messages(body, broker_name, tags, offset_delta, first_offset, check_crcs, max_body_bytes)
    return found if unwrap is None else _unwrapped(found, unwrap)


def _unwrapped(messages: Iterator[ReceivedMessage], unwrap: Callable[[str], str]) -> Iterator[ReceivedMessage]:
    for message in messages:
        message.topic = unwrap(message.topic)
        yield message


def _decode_messages(
    body: bytes,
    broker_name: str,
    tags: Collection[str],
    offset_delta: int,
    first_offset: int,
    check_crcs: bool,
    most: int,
) -> Iterator[ReceivedMessage]:
    source = memoryview(body)
    position = 0
    while position < len(source):
        plain: list[ReceivedMessage] = []
        position = plain_messages(body, position, broker_name, tags, offset_delta, plain)
        if check_crcs:
            for message in plain:
                message.body_problem = _crc_problem(message.body, message.body_crc)
        yield from plain
        if position >= len(source):
            return
        try:
            record = read_record(source, position)
        except FormatError as problem:
            unreadable = _unreadable(source[position:], str(problem), broker_name, offset_delta)
            position += unreadable.store_size
            yield unreadable
            continue
        position += record.total_size
        if record.sys_flag & _INNER == _INNER:
            for message in _split_batch(_received(record, broker_name, offset_delta, check_crcs, most)):
                wanted = message.queue_offset >= first_offset and (not tags or message.tags in tags)
                if wanted or message.body_problem:
                    yield message
        elif not tags or record.properties.get(TAGS) in tags:
            yield _received(record, broker_name, offset_delta, check_crcs, most)


def unique_ids(message: ReceivedMessage) -> tuple[str, str]:
    """Return the unique id that a message got when it was sent, and the visible one; "" for a missing one.

    They differ for messages of a client's batch: brokers append the batch's properties, and the last value wins.
    """
    shown = message.properties.get(property_text.UNIQ_KEY, "")
    rest: bytes = getattr(message, "_rest", b"")
    if not rest:
        return shown, shown
    text = rest[_layout(_FLAGS.unpack_from(rest, _FLAGS_AT)[0]).size :].decode("utf-8", "replace")
    name = f"{property_text.UNIQ_KEY}\x01"
    pairs = (pair for pair in text.split("\x02") if pair.startswith(name))
    return next(pairs, name).removeprefix(name), shown


def _plain_messages(
    records: bytes,
    position: int,
    broker_name: str,
    tags: Collection[str],
    offset_delta: int,
    found: list[ReceivedMessage],
) -> int:
    """Decode records that are complete and whose body is stored uncompressed and unbatched.

    Only the fields needed to find a message are decoded; the rest is decoded on first use.

    Args:
        records: consecutive records.
        position: start of the first record.
        broker_name: see `decode_messages`, also for the next two.
        found: receives the messages.

    Returns:
        The position of the first record that is not plain, or the end of *records*.
    """
    source = memoryview(records)
    while position < len(source):
        try:
            record = read_record(source, position)
        except FormatError:
            break
        if record.sys_flag & _ODD:
            break
        position += record.total_size
        if tags and record.properties.get(TAGS) not in tags:
            continue
        message = ReceivedMessage.__new__(ReceivedMessage)
        message.topic = record.topic
        message.body = bytes(record.body)
        message.queue_id = record.queue_id
        message.queue_offset = record.queue_offset + offset_delta
        message.log_offset = record.log_offset
        message.store_size = record.total_size
        message.reconsume_times = record.reconsume_times
        message.broker_name = broker_name
        message.body_problem = ""
        rest = record.raw[: _layout(record.sys_flag).size], record.properties_bytes
        message._rest = b"".join(rest)  # type: ignore[misc]  # a slot of its base
        message._read_rest = _read_rest
        found.append(message)
    return position


def _read_rest(rest: bytes, name: str) -> object:
    """Decode the field *name* of a plain message.

    Args:
        rest: head of the record, followed by its properties.
        name: a field that `_plain_messages` does not decode.
    """
    layout = _layout(_FLAGS.unpack_from(rest, _FLAGS_AT)[0])
    if name == "properties":
        return property_text.decode(rest[layout.size :])
    head = layout.unpack_from(rest)
    if name == "offset_id":
        return ids.offset_id(head[_PLACES["store_host"]], head[_PLACES["log_offset"]])
    value = head[_PLACES[name]]
    return host_text(value) if name in ("born_host", "store_host") else value


def _layout(sys_flag: int) -> Struct:
    return HEADS[(sys_flag & _HOST_BITS) >> 4]


plain_messages = (
    _plain_messages
    if speedups.compiled is None
    else speedups.compiled.MessageReader(
        *(ReceivedMessage, _read_rest, f"{TAGS}\x01".encode()),
        *(MAGIC_V1, MAGIC_V2, _ODD, BORN_HOST_V6, STORE_HOST_V6),
    )
)


def _crc_problem(stored: Buffer, crc: int) -> str:
    """Return an error if the check sum of a stored body is wrong, else an empty string."""
    found = body_crc(stored)
    return "" if found == crc else f"the check sum of the stored body is {found:08x}, its record says {crc:08x}"


def _received(record: RecordView, broker_name: str, offset_delta: int, check_crc: bool, most: int) -> ReceivedMessage:
    """Return the record as one message, with its body copied, or up to *most* bytes of it decompressed."""
    body, problem = bytes(record.body), _crc_problem(record.body, record.body_crc) if check_crc else ""
    if not problem:
        body, problem = decompress_or_raw(record.body, record.sys_flag, most)
    return ReceivedMessage(
        topic=record.topic,
        body=body,
        properties=record.properties,
        flag=record.flag,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset + offset_delta,
        log_offset=record.log_offset,
        store_size=record.total_size,
        sys_flag=record.sys_flag if problem else record.sys_flag & ~COMPRESSED,
        born_timestamp=record.born_timestamp,
        born_host=host_text(record.born_host),
        store_timestamp=record.store_timestamp,
        store_host=host_text(record.store_host),
        reconsume_times=record.reconsume_times,
        body_crc=record.body_crc,
        prepared_offset=record.prepared_offset,
        offset_id=ids.offset_id(bytes(record.store_host), record.log_offset),
        broker_name=broker_name,
        body_problem=problem,
    )


def _split_batch(batch: ReceivedMessage) -> Iterator[ReceivedMessage]:
    """Return the messages of an inner batch, with consecutive queue offsets, or the batch itself if it cannot be
    decoded.
    """
    if batch.body_problem:
        yield batch
        return
    try:
        entries = decode_batch(batch.body)
    except FormatError as problem:
        yield attrs.evolve(batch, body_problem=f"an inner batch that cannot be split: {problem}")
        return
    for number, entry in enumerate(entries):
        yield attrs.evolve(
            batch,
            body=bytes(entry.body),
            flag=entry.flag,
            properties=property_text.decode(entry.properties),
            queue_offset=batch.queue_offset + number,
        )


def _unreadable(rest: memoryview, problem: str, broker_name: str, offset_delta: int) -> ReceivedMessage:
    """Return a corrupt record as a message: as many bytes as the record claims, or all of *rest*."""
    size, queue_id, queue_offset, log_offset = len(rest), -1, -1, -1
    if len(rest) >= MIN_RECORD_BYTES:
        head = HEAD_V4.unpack_from(rest)
        if head[1] in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= head[0] <= len(rest):
            size, queue_id, queue_offset, log_offset = head[0], head[3], head[5] + offset_delta, head[6]
    return ReceivedMessage(
        topic="",
        body=bytes(rest[:size]),
        properties={},
        flag=0,
        queue_id=queue_id,
        queue_offset=queue_offset,
        log_offset=log_offset,
        store_size=size,
        sys_flag=0,
        born_timestamp=0,
        born_host="",
        store_timestamp=0,
        store_host="",
        reconsume_times=0,
        body_crc=0,
        prepared_offset=0,
        offset_id="",
        broker_name=broker_name,
        body_problem=f"the record cannot be read, its bytes are the body: {problem}",
    )
