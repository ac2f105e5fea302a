"""Pop responses and receipt handles: the fields of a response, from which clients build the handles.

A consumer passes a receipt handle to acknowledge a message, as property POP_CK or field extraInfo:

    startOffset popTime invisibleTime reviveQueueId kind brokerName queueId queueOffset     separated by spaces

*startOffset* is the start offset of the pop, *queueOffset* that of the message, which may be missing. Responses carry
the parts in three fields, from which clients build the handles: startOffsetInfo, msgOffsetInfo and orderCountInfo.
Records of retry topics get their topic and handle from the broker.

Source: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, PopMessageResponseHeader.java;
broker/.../processor/PopMessageProcessor.java (popMsgFromQueue).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as property_text
from gantrymq.plugin.formats import encode_record, iter_records
from gantrymq.plugin.interfaces import GetResult, PoppedBatch
from gantrymq.plugin.loose_json import whole_number
from gantrymq.plugin.properties import MAX_BYTES, POP_CK
from gantrymq_pop.order_info import OrderCounts
from gantrymq_pop.topics import kind_of

ORDERED: Final = 999  # reviveQueueId of an ordered pop, which writes no checkpoint
_INT64_MAX: Final = 2**63 - 1
Buffers = Sequence[bytes | memoryview]
_SIZE: Final = struct.Struct(">i")
_QUEUE_OFFSET: Final = struct.Struct(">q")
_QUEUE_OFFSET_AT: Final = 20  # position in a record


class ReceiptHandle(NamedTuple):
    """A parsed receipt handle."""

    start_offset: int
    pop_time: int  # ms
    invisible_ms: int
    revive_queue: int
    kind: str  # see `topics.kind_of`
    broker_name: str
    queue_id: int

    @property
    def due_ms(self) -> int:
        """Time at which its messages are redelivered."""
        return self.pop_time + self.invisible_ms


def read_receipt_handle(text: str, revive_queues: int) -> ReceiptHandle:
    """Parse a receipt handle.

    Raises:
        MessageIllegal: it has too few parts, a part is not a number, or the revive queue does not exist.
    """
    parts = text.split(" ", 8)
    numbers = [whole_number(each) for each in (*parts[:4], *parts[6:7])]
    if len(numbers) < 5 or None in numbers:
        raise _garbled(text, "eight parts are expected, numbers but for the broker's name")
    start, pop_time, invisible_ms, revive_queue, queue_id = (number or 0 for number in numbers)
    kind, broker_name = parts[4:6]
    if not (0 <= revive_queue < revive_queues or revive_queue == ORDERED):
        raise _garbled(text, f"its reviveQueueId {revive_queue} is none of 0 to {revive_queues - 1} and {ORDERED}")
    if not (0 <= start <= _INT64_MAX and pop_time >= 0 and invisible_ms >= 0 and pop_time + invisible_ms <= _INT64_MAX):
        raise _garbled(text, "an offset or a time in it is out of range")
    return ReceiptHandle(start, pop_time, invisible_ms, revive_queue, kind, broker_name, queue_id)


def _garbled(text: str, why: str) -> MessageIllegal:
    return MessageIllegal(
        f"the receipt handle {text[:80]!r} is not one of this broker's: {why}; pass on POP_CK as the message had it"
    )


def split_records(found: GetResult, end: int | None) -> tuple[list[int], Buffers]:
    """Return the queue offsets and the bytes of the records in *found* before the offset *end*."""
    offsets: list[int] = []
    buffers: list[bytes | memoryview] = []
    for buffer in found.buffers:
        at, size = 0, len(buffer)
        while at < size:
            (offset,) = _QUEUE_OFFSET.unpack_from(buffer, at + _QUEUE_OFFSET_AT)
            if end is not None and offset >= end:
                buffers.append(memoryview(buffer)[:at])
                return offsets, buffers
            offsets.append(offset)
            at += _SIZE.unpack_from(buffer, at)[0]
        buffers.append(buffer)
    return offsets, buffers


def start_info(batch: PoppedBatch) -> str:
    """Return one part of startOffsetInfo."""
    return f"{batch.kind} {batch.queue_id} {batch.start_offset}"


def offsets_info(batch: PoppedBatch) -> str:
    """Return one part of msgOffsetInfo."""
    return f"{batch.kind} {batch.queue_id} {','.join(map(str, batch.offsets))}"


def counts_info(topic: str, queue_id: int, counts: OrderCounts) -> list[str]:
    """Return parts of orderCountInfo: one per message delivered before, and one for the queue, read by old clients."""
    kind = kind_of(topic)
    pieces = [f"{kind} qo{queue_id}%{offset} {times}" for offset, times in counts.of_offset.items()]
    return [*pieces, f"{kind} {queue_id} {counts.least}"]


def rename_records(buffers: Buffers, topic: str, handle_start: str, broker_name: str) -> list[bytes]:
    """Rewrite records of a retry topic for the client: under *topic*, each with its receipt handle.

    A record without room for the handle in its properties keeps its retry topic, as with
    ``popResponseReturnActualRetryTopic``; clients then build the handle themselves.

    Args:
        handle_start: the first five parts of the handle, see `ReceiptHandle`.
    """
    made = []
    for buffer in buffers:
        for record in iter_records(buffer):
            found = dict(record.properties)
            found.setdefault(POP_CK, f"{handle_start} {broker_name} {record.queue_id} {record.queue_offset}")
            properties = property_text.encode(found)
            if len(properties) > MAX_BYTES:
                made.append(bytes(record.raw))
                continue
            made.append(
                encode_record(
                    topic=topic,
                    queue_id=record.queue_id,
                    body=record.body,
                    properties=properties,
                    queue_offset=record.queue_offset,
                    log_offset=record.log_offset,
                    store_timestamp=record.store_timestamp,
                    born_timestamp=record.born_timestamp,
                    born_host=record.born_host,
                    store_host=record.store_host,
                    flag=record.flag,
                    sys_flag=record.sys_flag,
                    reconsume_times=record.reconsume_times,
                    prepared_offset=record.prepared_offset,
                )
            )
    return made
