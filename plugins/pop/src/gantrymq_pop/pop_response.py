"""Pop responses: the fields from which clients build the receipt handles (`gantrymq.model.receipt`).

They are startOffsetInfo, msgOffsetInfo and orderCountInfo. Records of retry topics get their topic and handle from the
broker.

Source: apache/rocketmq remoting/.../protocol/header/ExtraInfoUtil.java, PopMessageResponseHeader.java;
broker/.../processor/PopMessageProcessor.java (popMsgFromQueue).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gantrymq.plugin import properties as property_text
from gantrymq.plugin.formats import RecordView, encode_record, iter_records
from gantrymq.plugin.interfaces import GetResult, PoppedBatch
from gantrymq.plugin.properties import MAX_BYTES, POP_CK

Buffers = Sequence[bytes | memoryview]
_SIZE: Final = struct.Struct(">i")
_QUEUE_OFFSET: Final = struct.Struct(">q")
_QUEUE_OFFSET_AT: Final = 20  # position in a record


class SplitRecords(NamedTuple):
    """Records for one answer."""

    offsets: list[int]  # in the queue
    buffers: Buffers
    cut: int | None  # queue offset of the first record for which there was no room; None: all fitted


def split_records(found: GetResult, end: int | None, room: int, least: int = 0) -> SplitRecords:
    """Return the records in *found* before the offset *end*: at most *room* bytes, but at least *least* records."""
    offsets: list[int] = []
    buffers: list[bytes | memoryview] = []
    for buffer in found.buffers:
        at, size = 0, len(buffer)
        while at < size:
            (offset,) = _QUEUE_OFFSET.unpack_from(buffer, at + _QUEUE_OFFSET_AT)
            next_at = at + _SIZE.unpack_from(buffer, at)[0]
            is_full = next_at > room and len(offsets) >= least
            if is_full or (end is not None and offset >= end):
                if at:
                    buffers.append(memoryview(buffer)[:at])
                return SplitRecords(offsets, buffers, offset if is_full else None)
            offsets.append(offset)
            at = next_at
        buffers.append(buffer)
        room -= size
    return SplitRecords(offsets, buffers, None)


def start_info(batch: PoppedBatch) -> str:
    """Return one part of startOffsetInfo."""
    return f"{batch.kind} {batch.queue_id} {batch.start_offset}"


def offsets_info(batch: PoppedBatch) -> str:
    """Return one part of msgOffsetInfo."""
    return f"{batch.kind} {batch.queue_id} {','.join(map(str, batch.offsets))}"


def counts_info(batch: PoppedBatch) -> str:
    """Return parts of orderCountInfo: one per message delivered before, and one for the queue, read by old clients."""
    times = batch.deliveries
    own = [f"{batch.kind} qo{batch.queue_id}%{offset} {times[offset]}" for offset in batch.offsets if offset in times]
    least = min(times.get(offset, 0) for offset in batch.offsets)
    return ";".join([*own, f"{batch.kind} {batch.queue_id} {least}"])


def rename_records(buffers: Buffers, topic: str, handle_start: str, broker_name: str) -> list[bytes]:
    """Rewrite records of a retry topic for the client: under *topic*, each with its receipt handle.

    A record without room for the handle in its properties keeps its retry topic, as with
    ``popResponseReturnActualRetryTopic``; clients then build the handle themselves.

    Args:
        handle_start: the first five parts of the handle, see `gantrymq.model.receipt`.
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
            made.append(_changed(record, topic=topic, properties=properties))
    return made


def count_deliveries(buffers: Buffers, times: Mapping[int, int]) -> list[bytes | memoryview]:
    """Rewrite records that were delivered before: with a higher number of deliveries, by *times* of their offset."""
    made: list[bytes | memoryview] = []
    for buffer in buffers:
        for record in iter_records(buffer):
            more = times.get(record.queue_offset, 0)
            made.append(_changed(record, reconsume_times=record.reconsume_times + more) if more else record.raw)
    return made


def _changed(
    record: RecordView,
    *,
    topic: str | None = None,
    properties: bytes | None = None,
    reconsume_times: int | None = None,
) -> bytes:
    """Return a record with other values."""
    return encode_record(
        topic=record.topic if topic is None else topic,
        queue_id=record.queue_id,
        body=record.body,
        properties=bytes(record.properties_bytes) if properties is None else properties,
        queue_offset=record.queue_offset,
        log_offset=record.log_offset,
        store_timestamp=record.store_timestamp,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times if reconsume_times is None else reconsume_times,
        prepared_offset=record.prepared_offset,
    )
