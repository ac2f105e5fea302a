"""The messages stored for a transaction, and the check request, byte for byte as a Java broker builds them.

| Message | Topic | Built from |
|---|---|---|
| half | RMQ_SYS_TRANS_HALF_TOPIC | the message, see `half_text`; no transaction bits |
| committed | the target topic | the half message; transaction bits 8, and the log offset of the half message |
| renewed | RMQ_SYS_TRANS_HALF_TOPIC | the half message with one check more; flag and reconsume times become 0 |
| given up | TRANS_CHECK_MAX_TIME_TOPIC | the half message |
| op | RMQ_SYS_TRANS_OP_HALF_TOPIC | tag ``d``; the queue offsets of half messages, each followed by a comma |

A committed message with a delay has no TRAN_MSG, and is stored aside again until its delay is over.

A half message stored by a Java broker may have no room in its properties for the count of checks. Its copies then keep
the same properties.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageBridge.java,
DefaultTransactionalMessageCheckListener.java, TransactionalMessageServiceImpl.java (getOpMessage);
broker/.../processor/EndTransactionProcessor.java (endMessageTransaction);
broker/.../transaction/AbstractTransactionalMessageCheckListener.java (sendCheckMessage).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, encode_record, tags_code
from gantrymq.plugin.interfaces import PutResult, StoreMessage
from gantrymq.plugin.model import TransactionCheck, offset_id
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq.plugin.properties import ordered_text
from gantrymq.plugin.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_transaction.rules import CHECK_TIMES

_REMOVE_TAG: Final = "d"
_OP_PROPERTIES: Final = props.encode({props.WAIT: "true", props.TAGS: _REMOVE_TAG})
_DELAYS: Final = frozenset({props.DELAY, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS})
_OP_TAGS_CODE: Final = tags_code(_REMOVE_TAG)
_NUMBER: Final = re.compile(rb"[0-9]{1,18}\Z")


def real_queue(own: Mapping[str, str]) -> tuple[str, int] | None:
    """Return target topic and queue id of a half message; None if its properties lack them."""
    topic, queue_id = own.get(props.REAL_TOPIC), own.get(props.REAL_QUEUE_ID, "")
    return (topic, int(queue_id)) if topic and queue_id.isascii() and queue_id.isdecimal() else None


def asks_for_delay(own: Mapping[str, str]) -> bool:
    """Return whether the message has a delay, by level or by time, that begins with its commit."""
    return not _DELAYS.isdisjoint(own)


def committed(half: RecordView, own: Mapping[str, str], queue: tuple[str, int]) -> StoreMessage:
    """Return the committed message; interceptors process it, and may store it aside until its delay is over."""
    text = bytes(half.properties_bytes)
    if asks_for_delay(own):
        text = ordered_text({name: value for name, value in own.items() if name != props.TRAN_MSG})
    body = bytes(half.body)  # compiled functions need bytes
    return committed_message(half, *queue, body, text, tags_code(own.get(props.TAGS)), half.log_offset)


def committed_message(
    half: RecordView | StoreMessage,
    topic: str,
    queue_id: int,
    body: bytes | memoryview,
    properties: bytes,
    tags: int,
    log_offset: int,
) -> StoreMessage:
    """Return the message for the target queue with the other fields of *half*, which is stored at *log_offset*."""
    return StoreMessage(
        topic,
        queue_id,
        body,
        properties,
        tags,
        half.flag,
        half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        half.born_timestamp,
        half.born_host,
        half.store_host,
        half.reconsume_times,
        log_offset,
    )


def as_submitted(message: StoreMessage) -> StoreMessage:
    """Copy *message*, as interceptors and the store may change it, and a refused append is retried unchanged."""
    return StoreMessage(
        message.topic,
        message.queue_id,
        message.body,
        message.properties,
        message.tags_code,
        message.flag,
        message.sys_flag,
        message.born_timestamp,
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.prepared_offset,
    )


def renewed(half: RecordView, own: Mapping[str, str]) -> StoreMessage:
    """Return a copy of the half message for the end of its queue, with the properties *own*."""
    return StoreMessage(
        HALF_TOPIC,
        half.queue_id,
        half.body,
        _text(half, own),
        tags_code=tags_code(own.get(props.TAGS)),
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        store_host=half.store_host,
    )


def given_up(half: RecordView, own: Mapping[str, str]) -> StoreMessage:
    """Return the message for TRANS_CHECK_MAX_TIME_TOPIC, which is not checked any more."""
    return _moved(half, own, CHECK_MAX_TIME_TOPIC)


def resumed(given: RecordView) -> StoreMessage:
    """Return a message of TRANS_CHECK_MAX_TIME_TOPIC as a half message with zero checks."""
    return _moved(given, {**given.properties, CHECK_TIMES: "0"}, HALF_TOPIC)


def _text(record: RecordView, own: Mapping[str, str]) -> bytes:
    """Encode *own* for a copy of *record*; return the text of *record* if a record has no room for *own*."""
    text = ordered_text(own)
    return text if len(text) <= props.MAX_BYTES else bytes(record.properties_bytes)


def _moved(record: RecordView, own: Mapping[str, str], topic: str) -> StoreMessage:
    return StoreMessage(
        topic,
        0,
        record.body,
        _text(record, own),
        tags_code=tags_code(own.get(props.TAGS)),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
    )


def op_message(offsets: Iterable[int], now_ms: int, host: bytes) -> StoreMessage:
    """Return the op message that settles the half messages at *offsets*. *host*: the broker's."""
    return StoreMessage(
        OP_TOPIC,
        0,
        b"".join([b"%d," % offset for offset in offsets]),
        _OP_PROPERTIES,
        tags_code=_OP_TAGS_CODE,
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )


def offsets_in_op(op: RecordView) -> list[int]:
    """Return the queue offsets in an op message, ignoring other text; RocketMQ 4 writes one offset without a comma."""
    if op.properties.get(props.TAGS) != _REMOVE_TAG:
        return []
    return [int(piece) for piece in bytes(op.body).split(b",") if _NUMBER.match(piece)]


def check_of(
    half: RecordView, own: Mapping[str, str], queue: tuple[str, int], copy: PutResult, host: bytes, broker_name: str
) -> TransactionCheck:
    """Return the question for the producer of a transaction.

    Args:
        half: the half message before this check.
        own: its properties with this check counted.
        queue: target topic and queue id.
        copy: where the renewed half message was stored.
        host: the broker's address, packed.
        broker_name: as known to clients.
    """
    shown = encode_record(
        topic=queue[0],
        queue_id=queue[1],
        body=half.body,
        properties=_text(half, {**own, props.WAIT: "false"}),
        queue_offset=copy.queue_offset,
        log_offset=copy.log_offset,
        store_timestamp=half.store_timestamp,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        store_host=half.store_host,
        flag=half.flag,
        sys_flag=half.sys_flag,
        reconsume_times=half.reconsume_times,
        prepared_offset=half.prepared_offset,
    )
    return TransactionCheck(
        topic=queue[0],
        producer_group=own.get(props.PRODUCER_GROUP, ""),
        half_topic=HALF_TOPIC,
        half_queue_offset=copy.queue_offset,
        half_log_offset=copy.log_offset,
        transaction_id=own.get(props.UNIQ_KEY, ""),
        offset_id=offset_id(host, copy.log_offset),
        broker_name=broker_name,
        record=shown,
    )
