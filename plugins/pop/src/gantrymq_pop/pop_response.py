"""Parts of a pop response: the fields from which clients build receipt handles, and the records of retry topics.

Source: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, PopMessageResponseHeader.java;
broker/.../processor/PopMessageProcessor.java (popMsgFromQueue).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from gantrymq.plugin import properties as property_text
from gantrymq.plugin.formats import encode_record, iter_records
from gantrymq.plugin.interfaces import GetResult, PoppedBatch
from gantrymq.plugin.properties import MAX_BYTES, POP_CK
from gantrymq_pop.order_info import OrderCounts
from gantrymq_pop.topics import kind_of

Buffers = Sequence[bytes | memoryview]

_SIZE: Final = struct.Struct(">i")
_QUEUE_OFFSET: Final = struct.Struct(">q")
_QUEUE_OFFSET_AT: Final = 20  # position in a record


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
        handle_start: the first five parts of the handle, see `receipt_handle`.
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
