"""Finds faults in messages, with Spark.

    found = audit(spark, Input(store="/var/lib/rocketmq/store"))
    found.findings.where("fault").show()

Messages are read once, in tasks; their digest (`audit_digest`) stays on the executors' disks until `close`. After a
shuffle, queues are walked in log order and unique keys in key order, so a task holds only one queue's open holes, or
one position of a key. Pending messages are checked in shares of `_SHARE_ROWS`. The driver receives only damage of the
log, ends of queues, and offsets of groups.

Checks that an input does not support are listed in `AuditResult.unknown`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.errors import ConfigError
from gantrymq.plugin.names import DLQ_PREFIX, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.plugin.properties import REAL_TOPIC
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.jobs.audit_digest import DIGEST_SCHEMA, HOUR_SCHEMA, Digest, digest_columns, digest_of_ranges
from gantrymq_spark.jobs.audit_findings import KEY_ORDER, KEY_SCHEMA, AuditFinding, dead_letter, repeated_keys
from gantrymq_spark.jobs.audit_lag import GroupLag, lag_finding, lags_of_store, live_groups
from gantrymq_spark.jobs.audit_pending import PENDING_COLUMNS, TIMER_DELETE, delay_findings, transaction_findings
from gantrymq_spark.jobs.audit_queues import (
    COST,
    COSTS_SHOWN,
    RUN_ORDER,
    RUN_SCHEMA,
    DamageCost,
    damage_finding,
    walk_runs,
)
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.log_scan import Damage
from gantrymq_store_files.delay_levels import DelayLevels
from gantrymq_store_tools.store_rules import delay_levels_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from gantrymq_spark.store_options import StoreOptions

__all__ = ["FINDING_SCHEMA", "AuditResult", "Limits", "audit", "refuse"]

_SHARE_ROWS = 200_000  # pending messages checked by one task
FINDING_SCHEMA = pa.schema(
    [
        ("check", pa.string()),
        ("fault", pa.bool_()),
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("commitLogOffset", pa.int64()),
        ("count", pa.int64()),
        ("text", pa.string()),
    ]
)
_STORE_OPTIONS = ("path", "maxBytesPerPartition", "brokerName", "failOnDataLoss")
_NO_STORE = "only the folder of a store shows this (--store)"
_NO_LOG = (
    f"log.damaged: {_NO_STORE}",
    f"transaction.open, transaction.orphan: {_NO_STORE}",
    f"delay.late, delay.lost: {_NO_STORE}",
)


@attrs.frozen
class Limits:
    """The limits above which something is a fault."""

    now_ms: int  # time as of which pending messages are checked
    lag: int = 10_000  # messages of one queue
    late_ms: int = 2_000  # delayed messages
    open_ms: int = 600_000  # half messages


@attrs.frozen
class AuditResult:
    """The findings, and statistics of the messages."""

    findings: DataFrame  # FINDING_SCHEMA
    hours: DataFrame  # of HOUR_SCHEMA without queueOffset and commitLogOffset, for each queue and hour
    lags: tuple[GroupLag, ...]
    unknown: tuple[str, ...]  # sentences: checks that this input does not support
    _kept: tuple[DataFrame, ...]

    def close(self) -> None:
        """Remove data from disks; the DataFrames cannot be used afterwards."""
        for frame in self._kept:
            frame.unpersist()


def audit(spark: SparkSession, given: Input, limits: Limits, *, delay_levels: str | None = None) -> AuditResult:
    """Check all messages of *given*.

    *delay_levels* is the broker's messageDelayLevel; by default as recorded in the store, else RocketMQ's default.

    Raises:
        ConfigError: *given* is invalid.
        StoreError: the folder is not a store that can be read.
        ClientError: a broker or name server does not respond.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import from_arrow_schema

    refuse(given)
    levels = _delay_levels(given, delay_levels)
    digest = _digest_of(given)
    rows = _digested(spark, given, digest, from_arrow_schema(DIGEST_SCHEMA)).persist(StorageLevel.DISK_ONLY)
    damages = _damages(rows)
    hours = _of_kind(rows, "hour", HOUR_SCHEMA)
    parts = [
        _queues(rows, damages),
        _keys(rows),
        _crc(rows),
        *_owed(rows, given, limits, levels, _log_start(hours)),
    ]
    queues = _queue_ends(rows, hours)
    lags, more, unknown = _groups(given, queues)
    more += [each for lag in lags if (each := lag_finding(lag, limits.lag)) is not None]
    more += [_dead(row) for row in queues if row["topic"].startswith(DLQ_PREFIX)]
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    found = found.persist(StorageLevel.DISK_ONLY)
    costs = _costs(found) if damages else {}
    more += [damage_finding(damage, costs.get(damage.log_offset, DamageCost())) for damage in damages]
    added = spark.createDataFrame(_table(more), from_arrow_schema(FINDING_SCHEMA))
    findings = found.where(sql.col("check") != COST).unionByName(added)
    names = ["brokerName", "topic", "queueId", "hour"]
    amounts = [sql.sum(name).alias(name) for name in ("messages", "bytes")]
    times = [sql.min("firstTime").alias("firstTime"), sql.max("lastTime").alias("lastTime")]
    summed = hours.groupBy(*names).agg(*amounts, *times)
    return AuditResult(
        findings, summed, tuple(lags), (*_unknown(given), *_assumed(rows, given, levels), *unknown), (rows, found)
    )


def refuse(given: Input) -> None:
    """Raise ConfigError if *given* cannot be audited."""
    given.check()
    if given.tags is not None or given.sql92 is not None:
        raise ConfigError(
            "an audit checks every message of a queue and does not support --tags and --sql92; select by topic and time"
        )
    if given.pattern is not None:
        try:
            re.compile(given.pattern)
        except re.error as problem:
            raise ConfigError(f"--topic-pattern: {given.pattern!r} is not a regular expression: {problem}") from None


def _unknown(given: Input) -> tuple[str, ...]:
    if given.store is not None:
        return ()
    if given.archive is not None:
        return ("body.crc: an archive has bodies as delivered to consumers, not as stored", *_NO_LOG)
    return _NO_LOG


def _delay_levels(given: Input, text: str | None) -> DelayLevels | None:
    if given.store is None:
        if text is not None:
            raise ConfigError("delay levels are for the delayed messages of a store; give --delay-levels with --store")
        return None
    return delay_levels_of(RealFiles(), _store_options(given).path, text)


def _assumed(rows: DataFrame, given: Input, levels: DelayLevels | None) -> tuple[str, ...]:
    """Return what was assumed about the delays of a store that does not record them."""
    from pyspark.sql import functions as sql

    if given.store is None or levels is not None:
        return ()
    delayed = rows.where((sql.col("kind") == "delay") & (sql.col("topic") == SCHEDULE_TOPIC))
    if delayed.isEmpty():
        return ()
    return (
        "delay.late, delay.lost: the store does not record the broker's messageDelayLevel, and RocketMQ's default was "
        "assumed; if the broker has another, give --delay-levels",
    )


# --- one pass over the messages -------------------------------------------------------------------------------------


def _digest_of(given: Input) -> Digest:
    if given.store is None:
        return Digest(bodies=given.archive is None, pending=False)
    since, until = (None if ms is None else ms * 1000 for ms in (given.since_ms, given.until_ms))
    return Digest(topics=given.topics, pattern=given.pattern, since_us=since, until_us=until)


def _digested(spark: SparkSession, given: Input, digest: Digest, schema: Any) -> DataFrame:
    if given.store is None:
        if given.live:
            given = attrs.evolve(given, options={**given.options, "storedBodies": "true"})
        frame = messages(spark, given, digest_columns(digest))
        if given.archive is not None:  # files are not in an order that makes runs
            frame = frame.repartition("brokerName", "topic", "queueId").sortWithinPartitions(
                "brokerName", "topic", "queueId", "commitLogOffset", "queueOffset"
            )
        return frame.mapInArrow(digest, schema)
    from gantrymq_spark.store_reading import plan_read

    options = _store_options(given)
    parts = plan_read(options)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from digest_of_ranges(options, [parts[number] for number in batch["id"].to_pylist()], digest)

    return spark.range(0, len(parts), 1, max(1, len(parts))).mapInArrow(work, schema)


def _store_options(given: Input) -> StoreOptions:
    from gantrymq_spark.store_options import read_store_options

    texts = {**given.options, "path": given.store or ""}
    return read_store_options(texts, source="gantrymq.store", known=_STORE_OPTIONS)


def _of_kind(rows: DataFrame, kind: str, schema: pa.Schema) -> DataFrame:
    from pyspark.sql import functions as sql

    columns = [sql.coalesce("brokerName", sql.lit("")).alias(n) if n == "brokerName" else n for n in schema.names]
    return rows.where(sql.col("kind") == kind).select(*columns)


def _damages(rows: DataFrame) -> list[Damage]:
    from pyspark.sql import functions as sql

    names = ("path", "damage", "commitLogOffset", "size", "problem")
    found = rows.where(sql.col("kind") == "damage").select(*names).orderBy("commitLogOffset").collect()
    return [
        Damage(row["path"], "", row["damage"], row["commitLogOffset"], row["size"], row["problem"], 0) for row in found
    ]


def _log_start(hours: DataFrame) -> int:
    from pyspark.sql import functions as sql

    return hours.agg(sql.min("commitLogOffset")).collect()[0][0] or 0


def _queue_ends(rows: DataFrame, hours: DataFrame) -> list[Any]:
    """Return for each queue the first queue offset, the end, and the number of messages."""
    from pyspark.sql import functions as sql

    queue = ["brokerName", "topic", "queueId"]
    counts = hours.groupBy(*queue).agg(sql.sum("messages").alias("messages"), sql.min("queueOffset").alias("first"))
    ends = _of_kind(rows, "run", RUN_SCHEMA).groupBy(*queue).agg(sql.max("endOffset").alias("end"))
    return list(counts.join(ends, queue).orderBy(*queue).collect())


# --- checks ---------------------------------------------------------------------------------------------------------


def _queues(rows: DataFrame, damages: list[Damage]) -> DataFrame:
    runs = _of_kind(rows, "run", RUN_SCHEMA).repartition("brokerName", "topic", "queueId")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _batches(walk_runs((pa.Table.from_batches([batch]) for batch in batches), damages))

    return runs.sortWithinPartitions(*RUN_ORDER).mapInArrow(work, _schema())


def _keys(rows: DataFrame) -> DataFrame:
    places = _of_kind(rows, "key", KEY_SCHEMA).repartition("topic", "uniqueKey")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _batches(repeated_keys(pa.Table.from_batches([batch]) for batch in batches))

    return places.sortWithinPartitions(*KEY_ORDER).mapInArrow(work, _schema())


def _crc(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    names = ["brokerName", "topic", "queueId", "queueOffset", "commitLogOffset", "text"]
    found = _of_kind(rows, "crc", pa.schema([(name, pa.string()) for name in names]))
    return found.select(
        sql.lit("body.crc").alias("check"),
        sql.lit(True).alias("fault"),
        *names[:5],
        sql.lit(1).cast("bigint").alias("count"),
        "text",
    )


def _owed(rows: DataFrame, given: Input, limits: Limits, levels: DelayLevels | None, log_start: int) -> list[DataFrame]:
    """Return findings of transactions and delayed messages; a share has all messages of one transaction or delay."""
    from pyspark.sql import functions as sql

    if given.store is None:
        return []
    pending = pa.schema([(name, pa.null()) for name in PENDING_COLUMNS])
    real = sql.col("properties")[REAL_TOPIC]
    key = sql.coalesce(sql.col("uniqueKey"), sql.unix_millis("bornTimestamp").cast("string"))
    wanted = _wanted(given, sql.coalesce(real, sql.col("topic")))

    delays = _of_kind(rows, "delay", pending)
    deletes = sql.col("properties")[TIMER_DELETE]
    pending_delay = sql.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC)
    if given.until_ms is not None:
        late = sql.col("storeTimestamp") >= sql.timestamp_millis(sql.lit(given.until_ms))
        delays = delays.where(~(pending_delay & late & deletes.isNull()))
    delays = delays.where(wanted | deletes.isNotNull())
    text = sql.coalesce(deletes, sql.concat_ws("+", sql.when(pending_delay, real).otherwise(sql.col("topic")), key))

    def look_at_delays(table: pa.Table) -> pa.Table:
        return _table(delay_findings(_plain(table), limits.now_ms, tolerance_ms=limits.late_ms, levels=levels))

    transactions = _of_kind(rows, "transaction", pending)
    if given.until_ms is not None:
        late = sql.col("storeTimestamp") >= sql.timestamp_millis(sql.lit(given.until_ms))
        transactions = transactions.where(~((sql.col("topic") == HALF_TOPIC) & late))
    half = sql.col("topic") == HALF_TOPIC
    place = sql.when(half, sql.col("commitLogOffset")).otherwise(sql.col("preparedTransactionOffset"))
    of_key = sql.coalesce(sql.col("uniqueKey"), place.cast("string"))
    others = transactions.where((sql.col("topic") != OP_TOPIC) & wanted).withColumn("key", of_key)
    halves = others.where(half).select(
        "brokerName", "queueId", sql.col("queueOffset").cast("string").alias("ended"), "key"
    )
    numbers = sql.regexp_extract_all(sql.col("body").cast("string"), sql.lit(r"(\d+)"))
    ops = (
        transactions.where(sql.col("topic") == OP_TOPIC)
        .withColumn("ended", sql.explode(numbers))
        .join(halves.dropDuplicates(), ["brokerName", "queueId", "ended"])
        .withColumn("body", sql.col("ended").cast("binary"))
        .select(*others.columns)
    )

    def look_at_transactions(table: pa.Table) -> pa.Table:
        rows = _plain(table)
        found = transaction_findings(rows, limits.now_ms, oldest_ms=limits.open_ms, log_start=log_start)
        if given.until_ms is None:
            return _table(found)
        times = rows["storeTimestamp"].cast(pa.int64())
        late = {*rows.filter(pc.greater_equal(times, given.until_ms * 1000))["commitLogOffset"].to_pylist()}
        return _table([each for each in found if each.check != "transaction.orphan" or each.log_offset not in late])

    return [
        _in_shares(delays.withColumn("key", text), delays.count(), look_at_delays),
        _in_shares(others.unionByName(ops), transactions.count(), look_at_transactions),
    ]


def _in_shares(frame: DataFrame, count: int, work: Any) -> DataFrame:
    from pyspark.sql import functions as sql

    share = sql.pmod(sql.xxhash64("brokerName", "key"), sql.lit(count // _SHARE_ROWS + 1))
    return frame.withColumn("share", share).groupBy("share").applyInArrow(work, _schema())


def _wanted(given: Input, topic: Column) -> Column:
    from pyspark.sql import functions as sql

    if given.topics:
        return topic.isin(*given.topics)
    return sql.lit(True) if given.pattern is None else topic.rlike(f"^(?:{given.pattern})$")


def _plain(table: pa.Table) -> pa.Table:
    return table.select(PENDING_COLUMNS)


def _costs(found: DataFrame) -> dict[int, DamageCost]:
    """Return costs by log offset of the damage."""
    from pyspark.sql import functions as sql

    texts = sql.slice(sql.sort_array(sql.collect_list("text")), 1, COSTS_SHOWN)
    sums = texts, sql.count("*"), sql.sum("count")
    rows = found.where(sql.col("check") == COST).groupBy("commitLogOffset").agg(*sums)
    return {row[0]: DamageCost(row[1], row[2], row[3]) for row in rows.collect()}


def _groups(given: Input, queues: list[Any]) -> tuple[list[GroupLag], list[AuditFinding], tuple[str, ...]]:
    if given.archive is not None:
        return [], [], (f"lag: an archive has no offsets of groups; {_NO_STORE}, or the live topics (--topic)",)
    if given.store is not None:
        if given.until_ms is not None:
            return [], [], ("lag: with --until the ends of queues are not known",)
        ends = {(row["topic"], row["queueId"]): row["end"] for row in queues}
        broker = queues[0]["brokerName"] if queues else ""
        lags, problem = lags_of_store(_store_options(given).path, ends, broker)
        return lags, [], () if problem is None else (problem,)
    said = asyncio.run(live_groups(given.namesrv, given.topics, given.pattern))
    return said.lags, said.dead_letters, ()


def _dead(row: Mapping[str, Any]) -> AuditFinding:
    return dead_letter(row["brokerName"], row["topic"], row["queueId"], row["first"], row["messages"])


# --- findings as rows -----------------------------------------------------------------------------------------------


def _schema() -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(FINDING_SCHEMA)


def _batches(found: Iterator[AuditFinding]) -> Iterator[pa.RecordBatch]:
    from itertools import islice

    while several := list(islice(found, 10_000)):
        yield from _table(several).to_batches()


def _table(found: list[AuditFinding]) -> pa.Table:
    columns = [
        [each.check for each in found],
        [each.fault for each in found],
        [each.broker_name for each in found],
        [each.topic for each in found],
        [each.queue_id for each in found],
        [each.queue_offset for each in found],
        [each.log_offset for each in found],
        [each.count for each in found],
        [each.text for each in found],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, FINDING_SCHEMA, strict=True)]
    return pa.table(arrays, schema=FINDING_SCHEMA)
