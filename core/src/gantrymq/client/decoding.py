"""From the records of a pull reply to messages. Whatever a record holds, readers get past it:

    record                                             what is received
    --------------------------------------------------------------------------------------------------------------
    whole                                              the message, decompressed
    an inner batch (topics with queue.type=BatchCQ)    its messages; queue offsets count on from the batch's
    a body that cannot be decompressed or taken apart  the message with the stored body, `body_problem` says why
    no whole record                                    its bytes as a body without topic, `body_problem` says why;
                                                       places are -1 where the bytes do not tell them

Sources: apache/rocketmq common/.../message/MessageDecoder.java (decode, decodeMessage), client/.../impl/consumer/
PullAPIWrapper.java (processPullResult).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import attrs

from gantrymq.errors import ClientError, FormatError
from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.compression import readable
from gantrymq.formats.record import HEAD_V4, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, RecordView, read_record
from gantrymq.model import ids
from gantrymq.model import properties as property_text
from gantrymq.model.hosts import host_text
from gantrymq.model.message import ReceivedMessage
from gantrymq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP

__all__ = ["received_from", "wanted_tags"]

_INNER = INNER_BATCH | NEED_UNWRAP


def wanted_tags(expression: str) -> frozenset[str]:
    """The tags of ``TagA || TagB``; empty for ``*`` and for nothing at all, which mean every message.

    Raises:
        ClientError: bars without any tag.
    """
    if expression.strip() in ("", "*"):
        return frozenset()
    tags = frozenset(tag.strip() for tag in expression.split("||") if tag.strip())
    if not tags:
        raise ClientError(f"the tag expression {expression!r} names no tag; write TagA || TagB, or * for all")
    return tags


def received_from(
    body: bytes, broker_name: str, tags: Collection[str] = (), offset_delta: int = 0, first_offset: int = 0
) -> Iterator[ReceivedMessage]:
    """Messages of a pull reply's body, in order, inner batches taken apart; the table above says of what kinds.

    The broker compares hashes of tags, so with *tags* a message is kept only if its tag's text is among them.

    Args:
        body: records back to back.
        broker_name: of the broker that sent them.
        tags: texts wanted; empty for all.
        offset_delta: added to every queue offset (static topics).
        first_offset: what was asked for; messages of an inner batch before it are left out.
    """
    source = memoryview(body)
    position = 0
    while position < len(source):
        try:
            record = read_record(source, position)
        except FormatError as problem:
            unreadable = _unreadable(source[position:], str(problem), broker_name, offset_delta)
            position += unreadable.store_size
            yield unreadable
            continue
        position += record.total_size
        if record.sys_flag & _INNER == _INNER:
            for message in _taken_apart(_received(record, broker_name, offset_delta)):
                wanted = message.queue_offset >= first_offset and (not tags or message.tags in tags)
                if wanted or message.body_problem:
                    yield message
        elif not tags or record.properties.get("TAGS") in tags:
            if record.sys_flag & COMPRESSED:
                yield _received(record, broker_name, offset_delta)
            else:
                yield _left_in_record(record, broker_name, offset_delta)


def _left_in_record(record: RecordView, broker_name: str, offset_delta: int) -> ReceivedMessage:
    """The record as one message, of which only that is read by which it is found; the rest when it is asked for."""
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
    message._source = (_decoded, record)
    return message


def _decoded(record: RecordView, name: str) -> object:
    """The field *name* of a message whose body is stored as it was sent."""
    if name == "born_host":
        return host_text(record.born_host)
    if name == "store_host":
        return host_text(record.store_host)
    if name == "offset_id":
        return ids.offset_id(bytes(record.store_host), record.log_offset)
    return getattr(record, name)


def _received(record: RecordView, broker_name: str, offset_delta: int) -> ReceivedMessage:
    """The record as one message; its body is copied out and decompressed."""
    body, problem = readable(record.body, record.sys_flag)
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


def _taken_apart(batch: ReceivedMessage) -> Iterator[ReceivedMessage]:
    """The messages of an inner batch, with consecutive queue offsets; the batch itself where it cannot be read."""
    if batch.body_problem:
        yield batch
        return
    try:
        entries = decode_batch(batch.body)
    except FormatError as problem:
        yield attrs.evolve(batch, body_problem=f"an inner batch that cannot be taken apart: {problem}")
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
    """What stands where a record should: as many bytes as it says that it has, or all of *rest*."""
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
