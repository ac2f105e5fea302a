"""An audit of a store, an archive or live topics, by Spark: what is missing, double, late, out of order or damaged.

    found = audit(spark, Input(store="/var/lib/rocketmq/store"))
    found.findings      a DataFrame, one row for each thing that is wrong
    found.figures       a DataFrame: messages and bytes by topic and hour

Tasks turn messages into runs of queue offsets and places of unique keys, which are few; the driver looks between runs,
a shuffle brings equal keys together. What an input cannot tell is in `Audit.unknown`: bodies of live topics and of
archives are decompressed, so that their CRC says nothing; an archive has neither the broker's own topics nor how far
groups are.

A record of a store whose CRC is wrong is damage of the log (`log.damaged`); with option checkCrc=false it is read all
the same, and a finding of its own (`body.crc`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from gantrymq.errors import ConfigError
from gantrymq.loose_json import loads
from gantrymq.model.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_system_topic,
)
from gantrymq.model.properties import DELAY, TIMER_OUT_MS
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq.world.real import RealClock, RealFiles
from gantrymq.world.real.lock import held_elsewhere
from gantrymq_spark.columns import schema
from gantrymq_spark.damage import Damage
from gantrymq_spark.jobs.audit_findings import AuditFinding
from gantrymq_spark.jobs.audit_messages import (
    CRC_COLUMNS,
    KEY_COLUMNS,
    KEY_SCHEMA,
    crc_findings,
    dead_letters,
    duplicate_keys,
    key_places,
    lag_findings,
)
from gantrymq_spark.jobs.audit_pending import PENDING_COLUMNS, delay_findings, transaction_findings
from gantrymq_spark.jobs.audit_queues import RUN_COLUMNS, RUN_SCHEMA, queue_findings, queue_runs
from gantrymq_spark.jobs.group_lag import group_progress
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.store_options import read_store_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FINDING_SCHEMA", "Audit", "Limits", "audit"]

STORE = "gantrymq.store"
_KINDS: dict[type, Any] = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}
FINDING_SCHEMA = pa.schema(
    [
        (field.name, _KINDS[{"int": int, "str": str, "bool": bool}[str(field.type)]])
        for field in attrs.fields(AuditFinding)
    ]
)
_PENDING_TOPICS = (HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC)


@attrs.frozen
class Limits:
    """What is not yet a fault."""

    lag: int = 10_000  # messages that a group may be behind in a queue
    late_ms: int = 2_000  # a delayed message may come so late
    open_ms: int = 600_000  # a half message may be open so long


@attrs.frozen
class Audit:
    """What was found."""

    findings: Any  # DataFrame, columns of AuditFinding
    figures: Any  # DataFrame: topic, hour (timestamp), messages, bytes
    unknown: tuple[str, ...]  # sentences: what this input cannot tell
    read_ms: int  # when it was read


def audit(spark: SparkSession, given: Input, limits: Limits = Limits()) -> Audit:
    """Look at all messages of *given*.

    Args:
        spark: a session in which the sources are registered.
        given: a store, an archive or live topics; whole queues, so without times, tags and expressions.
        limits: what is not yet a fault.

    Raises:
        ConfigError: a mistake.
        StoreError: a store that cannot be read.
        ClientError: live topics whose brokers do not answer.
    """
    given.check()
    for name in ("since_ms", "until_ms", "tags", "sql92"):
        if getattr(given, name) is not None:
            option = "--" + name.removesuffix("_ms")
            raise ConfigError(
                f"an audit looks at whole queues, else everything left out were missing; leave {option} away"
            )
    if given.store is not None:  # bodies as they are stored, and what is damaged is a row and no gap
        given = attrs.evolve(given, options={"storedBodies": "true", **given.options})
    rows = partial(messages, spark, given)
    runs = _table(rows(RUN_COLUMNS).mapInArrow(_mapped(queue_runs), _ddl(RUN_SCHEMA)), RUN_SCHEMA)
    damages = _damages(spark, given)
    now_ms = _now_ms(given, runs)
    found = queue_findings(runs, damages)
    found += dead_letters(_table(rows(KEY_COLUMNS).where("topic like '\\\\%DLQ\\\\%%'"), schema(KEY_COLUMNS)))
    unknown = []
    if given.store is not None:
        found += _pending(rows(PENDING_COLUMNS), runs, now_ms, limits)
        progress = _progress(Path(given.store))
        found += lag_findings(_ends(runs), progress, limits.lag, given.options.get("brokerName", ""))
    else:
        unknown.append("CRCs of bodies are not looked at: bodies come decompressed; audit the store's folder for that")
        unknown.append("transactions and delays are not looked at: only a store's folder has the broker's own topics")
    if given.archive is not None:
        unknown.append("lag of groups is not looked at: an archive does not say how far they are")
    elif given.live:
        found += _live_lag(given, limits.lag)
    parts = [_of_findings(spark, found), _duplicates(rows(KEY_COLUMNS))]
    if (
        given.store is not None
        and not read_store_options({**given.options, "path": given.store}, source=STORE).check_crc
    ):
        parts.append(rows(CRC_COLUMNS).mapInArrow(_mapped(_crc_rows), _ddl(FINDING_SCHEMA)))
    findings = parts[0]
    for part in parts[1:]:
        findings = findings.unionByName(part)
    return Audit(findings, _figures(rows(("topic", "storeTimestamp", "storeSize"))), tuple(unknown), now_ms)


# --- on executors ----------------------------------------------------------------------------------------------------


def _mapped(
    work: Callable[[pa.RecordBatch], pa.Table],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return partial(_each, work)


def _each(work: Callable[[pa.RecordBatch], pa.Table], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from work(batch).to_batches()


def _crc_rows(batch: pa.RecordBatch) -> pa.Table:
    return _finding_table(crc_findings(batch))


def _key_rows(table: pa.Table) -> pa.Table:
    return _finding_table(duplicate_keys(table.cast(KEY_SCHEMA)))


def _duplicates(rows: DataFrame) -> DataFrame:
    """A shuffle brings together what has one key; keys that stand at one place stay out of it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    places = rows.mapInArrow(_mapped(key_places), _ddl(KEY_SCHEMA))
    several = places.withColumn("places", sql.count("*").over(Window.partitionBy("topic", "uniqueKey")))
    several = several.where("places > 1").drop("places")
    return several.groupBy("topic", "uniqueKey").applyInArrow(_key_rows, _ddl(FINDING_SCHEMA))


# --- on the driver ---------------------------------------------------------------------------------------------------


def _now_ms(given: Input, runs: pa.Table) -> int:
    """Now; of a store that no broker has open, the time of its last message, as nothing could be done since."""
    if given.store is None or held_elsewhere(Path(given.store) / "lock"):
        return RealClock().now_ms()
    return max(runs["lastTime"].to_pylist(), default=0) // 1000


def _pending(rows: DataFrame, runs: pa.Table, now_ms: int, limits: Limits) -> list[AuditFinding]:
    """Transactions and delays; of delivered messages only what may be of these kinds is looked at."""
    from pyspark.sql import functions as sql

    committed = sql.col("sysFlag").bitwiseAND(TRANSACTION_MASK) == TRANSACTION_COMMIT
    delayed = sql.map_contains_key("properties", DELAY) | sql.map_contains_key("properties", TIMER_OUT_MS)
    kept = sql.col("topic").isin(*_PENDING_TOPICS) | committed | delayed | (sql.col("reconsumeTimes") > 0)
    found = _table(rows.where(kept), schema(PENDING_COLUMNS))
    transactions = transaction_findings(
        found, now_ms, oldest_ms=limits.open_ms, log_start=min(runs["firstLog"].to_pylist(), default=0)
    )
    return [*transactions, *delay_findings(found, now_ms, tolerance_ms=limits.late_ms)]


def _damages(spark: SparkSession, given: Input) -> list[Damage]:
    if given.store is None:
        return []
    own = {name: text for name, text in given.options.items() if name.lower() in ("checkcrc", "maxbytesperpartition")}
    rows = spark.read.format("gantrymq.damage").options(**own).load(given.store).collect()
    return [
        Damage(
            row.path,
            row.kind,
            row.damage,
            row.commitLogOffset,
            row.size,
            row.problem,
            round(row.storeTimestamp.timestamp() * 1000) if row.storeTimestamp is not None else 0,
        )
        for row in rows
    ]


def _ends(runs: pa.Table) -> dict[Queue, int]:
    found: dict[Queue, int] = {}
    for topic, queue_id, end in zip(
        *(runs[name].to_pylist() for name in ("topic", "queueId", "endOffset")), strict=True
    ):
        queue = Queue(topic, queue_id)
        found[queue] = max(end, found.get(queue, 0))
    return found


def _progress(root: Path) -> Mapping[str, Mapping[Queue, int]]:
    """How far groups are, by the broker's own file; nothing where there is none."""
    files, path = RealFiles(), root / "config" / "consumerOffset.json"
    if files.stat(path) is None:
        return {}
    table = loads(files.read(path)).get("offsetTable", {})
    found: dict[str, dict[Queue, int]] = {}
    for name, queues in table.items():
        topic, _, group = name.partition("@")
        if group and not is_system_topic(topic):
            found.setdefault(group, {}).update({Queue(topic, int(number)): at for number, at in queues.items()})
    return found


def _live_lag(given: Input, most: int) -> list[AuditFinding]:
    found = []
    for broker_name, (ends, progress) in group_progress(given).items():
        found += lag_findings(ends, progress, most, broker_name)
    return found


def _figures(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    hour = sql.date_trunc("hour", "storeTimestamp").alias("hour")
    return rows.groupBy("topic", hour).agg(sql.count("*").alias("messages"), sql.sum("storeSize").alias("bytes"))


def _table(rows: DataFrame, as_schema: pa.Schema) -> pa.Table:
    return rows.toArrow().cast(as_schema)


def _ddl(of: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(of)


def _finding_table(found: Iterable[AuditFinding]) -> pa.Table:
    return pa.Table.from_pylist([each.to_json() for each in found], schema=FINDING_SCHEMA)


def _of_findings(spark: SparkSession, found: list[AuditFinding]) -> DataFrame:
    return spark.createDataFrame(_finding_table(found))
