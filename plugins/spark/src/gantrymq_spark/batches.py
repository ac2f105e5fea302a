"""Stored records as Arrow batches with the columns of `columns`: what a log holds and what a pull reply carries.

Records are taken as sound; `positions.record_positions` finds those of a reply, `log_scan` those of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from gantrymq.model.properties import KEYS, TAGS, UNIQ_KEY
from gantrymq_spark.columns import schema
from gantrymq_spark.records import Records

__all__ = ["BODY_PROBLEMS", "NO_LOG", "RowOptions", "batch_of", "record_batch"]

NO_LOG = -1  # for data that is no stretch of a log
BODY_PROBLEMS = (
    "null",
    "keep",
    "fail",
)  # what becomes of a body that cannot be decompressed: null, as stored, an error
_NUMBERS = {  # columns that stand in the record's head as they are
    "queueId": "queue_id",
    "commitLogOffset": "log_offset",
    "storeSize": "total_size",
    "flag": "flag",
    "bodyCRC": "body_crc",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
}
_PROPERTIES = {"keys": KEYS, "tags": TAGS, "uniqueKey": UNIQ_KEY}
_TIMES = {"bornTimestamp": "born_timestamp", "storeTimestamp": "store_timestamp"}
_HOSTS = {"bornHost": "born_host", "storeHost": "store_host"}


@attrs.frozen
class RowOptions:
    """What rows show of records."""

    schema: Any = attrs.field(factory=schema)  # a pyarrow.Schema of some of the columns
    broker_name: str | None = None  # for the column brokerName; None where it is not known
    queue_names: Mapping[str, str] = attrs.field(factory=dict)  # topic as it is stored: the name to show for it
    stored_bodies: bool = False  # bodies that are stored compressed stay so
    queue_offset_delta: int = 0  # entries, added to each queue offset (static topics)
    body_problems: str = "null"  # one of BODY_PROBLEMS


def record_batch(
    data: bytes | bytearray | memoryview,
    positions: Any,
    log_offset_of_data: int,
    broker_name: str | None,
    queue_names: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    stored_bodies: bool = False,
    queue_offset_delta: int = 0,
    body_problems: str = "null",
) -> pa.RecordBatch:
    """One row for each record.

    Args:
        data: whole, sound records; shorter than 2 GiB.
        positions: int64 array, where in *data* a record starts, ascending.
        log_offset_of_data: log offset of its first byte; `NO_LOG` for a pull reply, whose records say it themselves.
        broker_name: for the column brokerName; None where it is not known.
        queue_names: the name to show for a topic as it is stored, for those that have another one (namespaces).
        columns: which, in what order; None for all.
        stored_bodies: True leaves bodies compressed that are stored so.
        queue_offset_delta: entries, added to each queue offset (static topics).
        body_problems: one of `BODY_PROBLEMS`.

    Raises:
        InvalidParameter: a column that does not exist.
        FormatError: a record says that it stands elsewhere in the log; or as `batch_of`.
    """
    shown = RowOptions(
        schema(columns), broker_name, queue_names or {}, stored_bodies, queue_offset_delta, body_problems
    )
    records = Records(data, np.asarray(positions, dtype=np.int64))
    if log_offset_of_data != NO_LOG:
        records.check_log_offsets(log_offset_of_data)
    return batch_of(records, shown)


def batch_of(records: Records, shown: RowOptions) -> pa.RecordBatch:
    """One row for each record, with the columns of *shown*.

    Raises:
        FormatError: a body cannot be decompressed, and *shown* says that this is an error; names the message.
    """
    if not len(records):
        return pa.RecordBatch.from_pylist([], schema=shown.schema)
    fields = records.fields
    if shown.body_problems == "fail" and not shown.stored_bodies and "body" in shown.schema.names:
        records.refuse_body_problems()

    def bodies() -> pa.Array:
        if shown.stored_bodies:
            return records.stored_bodies()
        return records.kept_bodies() if shown.body_problems == "keep" else records.bodies.plain

    def problems() -> pa.Array:
        return pa.nulls(len(records), pa.string()) if shown.stored_bodies else records.body_problems()

    made_by: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: records.topics(shown.queue_names),
        "brokerName": lambda: pa.repeat(pa.scalar(shown.broker_name, pa.string()), len(records)),
        "queueOffset": lambda: pa.array(fields.column("queue_offset") + np.int64(shown.queue_offset_delta)),
        "sysFlag": lambda: pa.array(records.sys_flags(stored_bodies=shown.stored_bodies)),
        "body": bodies,
        "bodyProblem": problems,
        "properties": lambda: records.properties.maps(),
        "msgId": records.offset_ids,
    }

    def made(name: str) -> pa.Array:
        if name in _NUMBERS:
            return pa.array(fields.column(_NUMBERS[name]))
        if name in _PROPERTIES:
            return records.properties.values(_PROPERTIES[name])
        if name in _TIMES:
            return records.times(_TIMES[name])
        if name in _HOSTS:
            return records.hosts(_HOSTS[name])
        return made_by[name]()

    return pa.RecordBatch.from_arrays([made(name) for name in shown.schema.names], schema=shown.schema)
