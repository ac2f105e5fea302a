"""Splits inner batches into one record for each message, as Java's client delivers them to consumers.

A topic with queue.type=BatchCQ stores messages that were sent together as one record. Each message has its own flag,
body and properties; its queue offset is the batch's plus its index; all other fields are the batch's. Java sets
storeSize, bodyCRC, reconsumeTimes and preparedTransactionOffset of such a message to 0; here storeSize and bodyCRC are
those of a separate record, the others are the batch's.

Source: apache/rocketmq common/.../message/MessageDecoder.java (decodeMessage), client/.../consumer/PullAPIWrapper.java.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gantrymq.errors import GantryError
from gantrymq.plugin.formats import RecordView, decode_batch, decompress, encode_record, read_record
from gantrymq.plugin.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from gantrymq_spark.record_columns import SYS_FLAG_AT, RecordFields, gather

_BOTH = INNER_BATCH | NEED_UNWRAP


def unwrapped(data: bytes | bytearray | memoryview, at: Any) -> tuple[bytes | bytearray | memoryview, Any]:
    """Return the same records with inner batches split; the same objects if there are none.

    A batch whose body cannot be decompressed or split stays as it is.

    Args:
        data: complete, sound records.
        at: int64, their starts.
    """
    bytes_of_data = np.frombuffer(data, dtype=np.uint8)
    inner = gather(bytes_of_data, at + SYS_FLAG_AT, 4).view(">i4") & _BOTH == _BOTH
    if not inner.any():
        return data, at
    fields = RecordFields(bytes_of_data, at)
    view, parts = memoryview(data), []
    for start, end, whole in zip(at.tolist(), fields.ends().tolist(), inner.tolist(), strict=True):
        parts += _taken_apart(read_record(view, start)) if whole else [bytes(view[start:end])]
    sizes = [len(part) for part in parts]
    return b"".join(parts), np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def _taken_apart(record: RecordView) -> list[bytes]:
    flags = record.sys_flag
    try:
        entries = decode_batch(decompress(record.body, flags) if flags & COMPRESSED else bytes(record.body))
    except GantryError:
        return [bytes(record.raw)]
    return [
        encode_record(
            topic=record.topic,
            queue_id=record.queue_id,
            body=entry.body,
            properties=entry.properties,
            queue_offset=record.queue_offset + number,
            log_offset=record.log_offset,
            store_timestamp=record.store_timestamp,
            born_timestamp=record.born_timestamp,
            born_host=bytes(record.born_host),
            store_host=bytes(record.store_host),
            flag=entry.flag,
            sys_flag=flags & ~COMPRESSED,
            reconsume_times=record.reconsume_times,
            prepared_offset=record.prepared_offset,
        )
        for number, entry in enumerate(entries)
    ]
