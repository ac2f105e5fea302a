"""From the records of a pull reply to messages.

Sources: apache/rocketmq common/.../message/MessageDecoder.java (decode), client/.../impl/consumer/PullAPIWrapper.java
(processPullResult).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gantrymq.errors import ClientError
from gantrymq.formats.compression import readable
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.model import ids
from gantrymq.model.hosts import host_text
from gantrymq.model.message import ReceivedMessage
from gantrymq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP

__all__ = ["received", "received_from", "wanted_tags"]


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
    body: bytes, broker_name: str, tags: Collection[str] = (), offset_delta: int = 0
) -> Iterator[ReceivedMessage]:
    """Messages of a pull reply's body, in order.

    The broker compares hashes of tags, so with *tags* a message is kept only if its tag's text is among them.

    Args:
        body: records back to back.
        broker_name: of the broker that sent them.
        tags: texts wanted; empty for all.
        offset_delta: added to every queue offset (static topics).

    Raises:
        FormatError: a record that cannot be read.
        ClientError: a record only another client can read.
    """
    for record in iter_records(body):
        if not tags or record.properties.get("TAGS") in tags:
            yield received(record, broker_name, offset_delta)


def received(record: RecordView, broker_name: str = "", offset_delta: int = 0) -> ReceivedMessage:
    """One message; its body is copied out of the record and decompressed.

    A body that cannot be decompressed stays as it is stored, with the reason beside it: readers have to get past it.

    Raises:
        ClientError: an inner batch.
    """
    if record.sys_flag & (INNER_BATCH | NEED_UNWRAP):
        raise ClientError(
            f"the record at queue offset {record.queue_offset} of {record.topic} is an inner batch "
            "(topic attribute queue.type=BatchCQ), which this client does not unwrap; read it with the Java client"
        )
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
