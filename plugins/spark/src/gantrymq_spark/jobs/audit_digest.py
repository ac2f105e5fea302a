"""The digest of messages for an audit: one pass produces few rows, from which everything else is computed.

| kind | content of a row |
|---|---|
| `run` | a run of `audit_queues` |
| `key` | a position of a unique key, of `audit_findings` |
| `hour` | messages and bytes of a queue in one hour, the first queue offset and log offset, the first and last time |
| `transaction`, `delay` | a message that `audit_pending` needs |
| `crc` | a finding about a body |
| `damage` | a range of the log without a sound record; only of stores |

Rows of all kinds have the columns of `DIGEST_SCHEMA`; columns that a kind does not use are null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.plugin.properties import REAL_TOPIC
from gantrymq.plugin.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_spark.batches import batch_of
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.jobs.audit_findings import CRC_COLUMNS, KEY_COLUMNS, KEY_SCHEMA, crc_findings, key_places
from gantrymq_spark.jobs.audit_pending import PENDING_COLUMNS
from gantrymq_spark.jobs.audit_queues import RUN_COLUMNS, RUN_SCHEMA, queue_runs
from gantrymq_spark.log_scan import LogScan, damage_batch, damage_schema
from gantrymq_spark.store_options import StoreOptions, StoreRange
from gantrymq_spark.store_reading import with_store_errors

_HOUR_US = 3_600_000_000
HOUR_SCHEMA = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("hour", pa.int64()),  # us, its start; 0 for messages without a store time
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("queueOffset", pa.int64()),  # smallest
        ("commitLogOffset", pa.int64()),  # smallest
        ("firstTime", pa.int64()),  # us, store times; 0 for messages without one
        ("lastTime", pa.int64()),
    ]
)
_CRC_SCHEMA = pa.schema([*((name, COLUMNS[name]) for name in CRC_COLUMNS[:5]), ("text", pa.string())])
_PENDING_SCHEMA = pa.schema([(name, COLUMNS[name]) for name in PENDING_COLUMNS])
_KINDS = {
    "run": RUN_SCHEMA,
    "key": KEY_SCHEMA,
    "hour": HOUR_SCHEMA,
    "transaction": _PENDING_SCHEMA,
    "delay": _PENDING_SCHEMA,
    "crc": _CRC_SCHEMA,
    "damage": damage_schema(),
}
DIGEST_SCHEMA = pa.unify_schemas([pa.schema([("kind", pa.string())]), *_KINDS.values()])
_TRANSACTION_TOPICS = (HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC)
_DELAY_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC)


@attrs.frozen
class Digest:
    """Options of the digest; sent to executors."""

    bodies: bool = True  # bodies are as stored, so their CRCs can be checked
    pending: bool = True  # messages include system topics
    topics: tuple[str, ...] = ()  # all if this is empty and there is no pattern
    pattern: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of `DIGEST_SCHEMA` for messages with `digest_columns`."""
        for batch in batches:
            yield from self.rows(batch, batch)

    def rows(self, stored: pa.RecordBatch, delivered: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows of `DIGEST_SCHEMA`.

        Args:
            stored: messages as they are stored, for what concerns records.
            delivered: the same messages with inner batches split, for what is counted by message.
        """
        table = self._since(pa.Table.from_batches([stored]))
        if self.pending:
            yield from _rows("transaction", table.filter(_of_transactions(table)))
            yield from _rows("delay", table.filter(_of_delays(table)))
        table = self._taken(table)
        if not table.num_rows:
            return
        yield from _rows("run", queue_runs(table))
        if self.bodies:
            yield from _rows("crc", _crc(table))
        if delivered is not stored:
            table = self._taken(self._since(pa.Table.from_batches([delivered])))
        yield from _rows("key", key_places(table))
        yield from _rows("hour", _hours(table))

    def _since(self, table: pa.Table) -> pa.Table:
        if self.since_us is None:
            return table
        return table.filter(pc.greater_equal(table["storeTimestamp"].cast(pa.int64()), self.since_us))

    def _taken(self, table: pa.Table) -> pa.Table:
        if self.until_us is not None:
            table = table.filter(pc.less(table["storeTimestamp"].cast(pa.int64()), self.until_us))
        if not self.topics and self.pattern is None:
            return table
        names = [name for name in table["topic"].unique().to_pylist() if self._wants(name)]
        return table.filter(pc.is_in(table["topic"], pa.array(names, pa.string())))

    def _wants(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and re.fullmatch(self.pattern, topic) is not None)


def digest_columns(digest: Digest) -> tuple[str, ...]:
    """Return the columns that messages must have."""
    names = [*RUN_COLUMNS, *KEY_COLUMNS, *(PENDING_COLUMNS if digest.pending else ())]
    names += CRC_COLUMNS if digest.bodies else ()
    return tuple(dict.fromkeys(names))


def digest_of_ranges(options: StoreOptions, parts: Sequence[StoreRange], digest: Digest) -> Iterator[pa.RecordBatch]:
    """Yield the digest of ranges of a store's log, including damage, without passing messages through Spark.

    Raises:
        StoreError: a file was deleted or may not be read.
    """
    from gantrymq.plugin.real_world import RealFiles

    shown = attrs.evolve(options, stored_bodies=True).row_options(digest_columns(digest))
    for part in parts:
        scan = LogScan(RealFiles(), part, check_crc=False)
        runs = scan.runs()
        while (records := with_store_errors(options.path, lambda given=runs: next(given, None))) is not None:  # type: ignore[misc]
            stored, messages = batch_of(records, shown), records.unwrapped()
            yield from digest.rows(stored, stored if messages is records else batch_of(messages, shown))
        yield from _rows("damage", pa.Table.from_batches([damage_batch(scan.damages)]))


def _rows(kind: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
    if not table.num_rows:
        return
    count, known = table.num_rows, _KINDS[kind].names
    columns: list[Any] = []
    for field in DIGEST_SCHEMA:
        if field.name == "kind":
            columns.append(pa.array([kind] * count))
        elif field.name in known:
            columns.append(table[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    yield from pa.table(columns, schema=DIGEST_SCHEMA).combine_chunks().to_batches()


def _of_transactions(table: pa.Table) -> pa.ChunkedArray:
    topics = pc.is_in(table["topic"], pa.array(_TRANSACTION_TOPICS))
    committed = pc.equal(pc.bit_wise_and(table["sysFlag"], TRANSACTION_MASK), TRANSACTION_COMMIT)
    return pc.or_(topics, committed)


def _of_delays(table: pa.Table) -> pa.ChunkedArray:
    """Return delayed and delivered messages; these keep REAL_TOPIC and may be in the broker's own topics."""
    return pc.or_(pc.is_in(table["topic"], pa.array(_DELAY_TOPICS)), _with_property(table, REAL_TOPIC))


def _with_property(table: pa.Table, name: str) -> pa.Array:
    found = np.zeros(table.num_rows, dtype=bool)
    if table.num_rows:
        chunk = table["properties"].combine_chunks()
        at = np.flatnonzero(pc.equal(chunk.keys, name).to_numpy(zero_copy_only=False))
        offsets = chunk.offsets.to_numpy()
        within = at[(at >= offsets[0]) & (at < offsets[-1])]
        found[np.searchsorted(offsets, within, side="right") - 1] = True
    return pa.array(found)


def _hours(table: pa.Table) -> pa.Table:
    times = pc.fill_null(table["storeTimestamp"].cast(pa.int64()), 0).to_numpy()
    rows = pa.table(
        {
            **{name: table[name] for name in ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")},
            "hour": pa.array(times // _HOUR_US * _HOUR_US),
            "time": pa.array(times),
            "storeSize": table["storeSize"],
        }
    )
    sums = rows.group_by(["brokerName", "topic", "queueId", "hour"]).aggregate(
        [
            *(("queueOffset", "count"), ("storeSize", "sum"), ("queueOffset", "min"), ("commitLogOffset", "min")),
            *(("time", "min"), ("time", "max")),
        ]
    )
    names = {
        "queueOffset_count": "messages",
        "storeSize_sum": "bytes",
        "queueOffset_min": "queueOffset",
        "commitLogOffset_min": "commitLogOffset",
        "time_min": "firstTime",
        "time_max": "lastTime",
    }
    return sums.rename_columns([names.get(name, name) for name in sums.column_names])


def _crc(table: pa.Table) -> pa.Table:
    found = crc_findings(table)
    rows = [
        {
            "brokerName": each.broker_name or None,
            "topic": each.topic,
            "queueId": each.queue_id,
            "queueOffset": each.queue_offset,
            "commitLogOffset": each.log_offset,
            "text": each.text,
        }
        for each in found
    ]
    return pa.Table.from_pylist(rows, schema=_CRC_SCHEMA)
