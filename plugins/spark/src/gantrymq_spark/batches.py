"""Stored records as Arrow batches with the columns of `columns`, from a log or a pull reply.

Records must be sound: `live.range_reader` checks those of a pull reply, `log_scan` those of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from gantrymq_spark.columns import HOSTS, NUMBERS, PROPERTIES, TIMES, schema
from gantrymq_spark.compiled_columns import COMPILED, compiled_columns
from gantrymq_spark.records import Records

NO_LOG = -1  # for data that is not a range of a log
# Results for a body that cannot be decompressed: null, the stored bytes, an error.
BODY_PROBLEMS = ("null", "keep", "fail")


@attrs.frozen
class RowOptions:
    """Columns and options of the rows made from records."""

    schema: Any = attrs.field(factory=schema)  # a pyarrow.Schema with some of the columns
    broker_name: str | None = None  # for the column brokerName; None if unknown
    queue_names: Mapping[str, str] = attrs.field(factory=dict)  # stored topic to displayed topic
    stored_bodies: bool = False  # bodies stay compressed if they are stored compressed
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
    """Return one row for each record.

    Args:
        data: complete, sound records; shorter than 2 GiB.
        positions: int64 array, the starts of records in *data*, ascending.
        log_offset_of_data: log offset of the first byte of *data*; `NO_LOG` for a pull reply, whose records state it.
        broker_name: for the column brokerName; None if unknown.
        queue_names: stored topic to displayed topic, if they differ (namespaces).
        columns: names of the columns, in order; None for all.
        stored_bodies: True leaves bodies compressed if they are stored compressed.
        queue_offset_delta: entries, added to each queue offset (static topics).
        body_problems: one of `BODY_PROBLEMS`.

    Raises:
        InvalidParameter: a column does not exist.
        FormatError: the log offset in a record is not its position; or as `batch_of`.
    """
    options = RowOptions(
        schema(columns), broker_name, queue_names or {}, stored_bodies, queue_offset_delta, body_problems
    )
    records = Records(data, np.asarray(positions, dtype=np.int64))
    if log_offset_of_data != NO_LOG:
        records.check_log_offsets(log_offset_of_data)
    return batch_of(records, options)


def batch_of(records: Records, options: RowOptions) -> pa.RecordBatch:
    """Return one row for each record, with the columns of *options*.

    Raises:
        FormatError: a body cannot be decompressed, and ``body_problems`` is "fail". The error names the message.
    """
    if not len(records):
        return pa.RecordBatch.from_pylist([], schema=options.schema)
    if options.body_problems == "fail" and not options.stored_bodies and "body" in options.schema.names:
        records.refuse_body_problems()

    def bodies() -> pa.Array:
        if options.stored_bodies:
            return records.stored_bodies()
        return records.kept_bodies() if options.body_problems == "keep" else records.bodies.plain

    def problems() -> pa.Array:
        return pa.nulls(len(records), pa.string()) if options.stored_bodies else records.body_problems()

    made_by: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: records.topics(options.queue_names),
        "brokerName": lambda: pa.repeat(pa.scalar(options.broker_name, pa.string()), len(records)),
        "queueOffset": lambda: pa.array(records.fields.column("queue_offset") + np.int64(options.queue_offset_delta)),
        "sysFlag": lambda: pa.array(records.sys_flags(stored_bodies=options.stored_bodies)),
        "body": bodies,
        "bodyProblem": problems,
        "properties": lambda: records.properties.maps(),
        "msgId": records.offset_ids,
    }

    names = [name for name in options.schema.names if name in COMPILED and not _left_to_python(name, records, options)]
    compiled = compiled_columns(records.data, records.starts, names, options.queue_offset_delta)

    def made(name: str) -> pa.Array:
        if name in compiled:
            return compiled[name]
        if name in NUMBERS:
            return pa.array(records.fields.column(NUMBERS[name]))
        if name in PROPERTIES:
            return records.properties.values(PROPERTIES[name])
        if name in TIMES:
            return records.times(TIMES[name])
        if name in HOSTS:
            return records.hosts(HOSTS[name])
        return made_by[name]()

    return pa.RecordBatch.from_arrays([made(name) for name in options.schema.names], schema=options.schema)


def _left_to_python(name: str, records: Records, options: RowOptions) -> bool:
    """Return whether `compiled_columns` cannot build a column of these records."""
    if name == "topic":
        return bool(options.queue_names)
    return name in ("body", "sysFlag") and not options.stored_bodies and records.has_compressed_bodies
