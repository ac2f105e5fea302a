"""The summary of an audit: counts, the first findings of each check, statistics for charts. All of it is small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from gantrymq_spark.jobs.audit import FINDING_SCHEMA, AuditResult
from gantrymq_spark.jobs.audit_lag import GroupLag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PER_CHECK = 100  # maximum number of findings shown
_TOPICS = 8  # of the chart over time
_QUEUES = 25
_HOURS = 1500  # more hours are aggregated by day
_ROWS_AT_ONCE = 10_000
_DAY_US = 86_400_000_000

ADVICE = {
    "queue.gap": "records are missing: compare the store with its queues (gantrymq store check FOLDER); a slave or an "
    "archive may have them",
    "queue.duplicate": "consumers that read by offset get one of the two: gantrymq store check FOLDER shows which one "
    "the queue names",
    "queue.order": "consumers that rely on order get the queue's order, not the log's: find out which program wrote it",
    "queue.time": "the clock of the broker went back: use NTP without steps; searches by time may miss messages",
    "queue.restart": "no fault; offsets that groups committed before belong to the older topic",
    "key.duplicate": "a producer sent it again: consumers must be idempotent; check timeouts of that producer",
    "body.crc": "the body differs from the sent one: take it from a slave or an archive, and check the disk",
    "log.damaged": "make a repaired copy after its broker has stopped (gantrymq store repair FOLDER); check the disk",
    "transaction.open": "its producer does not answer checks: start it, or find out the state of the transaction",
    "transaction.orphan": "the half message that it names is missing: look for damage of the log before it",
    "delay.late": "the broker was down or too slow when it was due",
    "delay.lost": "it is due: if the broker runs, check its log and delayOffset.json",
    "dead_letter": "read them (gantrymq group dlq list GROUP), fix the consumer, and send them again "
    "(gantrymq group dlq resend GROUP)",
    "lag": "add consumers, or check whether the group is still in use",
}


@attrs.frozen
class Summary:
    """The summary for people and scripts."""

    counts: list[tuple[str, bool, int, int]]  # check, whether it is a fault, findings, messages; by name
    shown: list[dict[str, Any]]  # members of FINDING_SCHEMA; faults first, at most `PER_CHECK` of a check
    unknown: tuple[str, ...]
    lags: Sequence[GroupLag]  # the largest first
    messages: int
    bytes: int
    queues: int
    topics: int
    first_us: int  # store times of the first and the last message, 0 for none
    last_us: int
    step: str  # hour or day
    per_step: dict[str, list[tuple[int, float]]]  # by topic, the largest first: time (us), messages
    largest: list[tuple[str, int]]  # queues, messages

    @property
    def faults(self) -> int:
        """Number of findings that are faults."""
        return sum(findings for _, fault, findings, _ in self.counts if fault)

    @property
    def findings(self) -> int:
        """Number of all findings."""
        return sum(findings for _, _, findings, _ in self.counts)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a JSON document."""
        return {
            "faults": self.faults,
            "checks": {
                check: {"fault": fault, "findings": findings, "count": count}
                for check, fault, findings, count in self.counts
            },
            "findings": self.shown,
            "unknown": list(self.unknown),
            "messages": self.messages,
            "bytes": self.bytes,
            "topics": self.topics,
            "queues": self.queues,
            "lag": [{**attrs.asdict(lag), "behind": lag.behind} for lag in self.lags[:_QUEUES]],
        }


def summary_of(audited: AuditResult) -> Summary:
    """Collect the summary on the driver."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    frame = audited.findings
    counted = frame.groupBy("check", "fault").agg(sql.count("*"), sql.sum("count")).collect()
    by_check = Window.partitionBy("check", "fault").orderBy("brokerName", "topic", "queueId", "queueOffset", "text")
    shown = frame.withColumn("row", sql.row_number().over(by_check)).where(sql.col("row") <= PER_CHECK)
    ordered = shown.orderBy(sql.desc("fault"), "check", "row").select(*FINDING_SCHEMA.names).collect()
    hours = audited.hours
    name = sql.when(sql.col("brokerName") == "", "").otherwise(sql.concat("brokerName", sql.lit(" ")))
    queue = sql.concat(name, "topic", sql.lit("/"), "queueId").alias("queue")
    per_queue = hours.groupBy(queue, "topic").agg(
        sql.sum("messages").alias("messages"), sql.sum("bytes").alias("bytes")
    )
    totals = per_queue.agg(
        sql.coalesce(sql.sum("messages"), sql.lit(0)),
        sql.coalesce(sql.sum("bytes"), sql.lit(0)),
        sql.count("*"),
        sql.count_distinct("topic"),
    ).collect()[0]
    span = (
        hours.where("hour > 0").agg(sql.min("firstTime"), sql.max("lastTime"), sql.count_distinct("hour")).collect()[0]
    )
    step, per_step = _over_time(hours, span[2])
    largest = per_queue.orderBy(sql.desc("messages"), "queue").limit(_QUEUES).collect()
    return Summary(
        sorted((row[0], row[1], row[2], row[3]) for row in counted),
        [row.asDict() for row in ordered],
        audited.unknown,
        sorted(audited.lags, key=lambda lag: -lag.behind),
        totals[0],
        totals[1],
        totals[2],
        totals[3],
        span[0] or 0,
        span[1] or 0,
        step,
        per_step,
        [(row["queue"], row["messages"]) for row in largest],
    )


def write_findings(frame: DataFrame, path: Path) -> int:
    """Write all findings to one Parquet file and return their number. The driver holds a few at a time."""
    from pyarrow import parquet

    count, rows = 0, []
    with parquet.ParquetWriter(path, FINDING_SCHEMA) as writer:
        for row in frame.toLocalIterator(prefetchPartitions=True):
            rows.append(row.asDict())
            if len(rows) == _ROWS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(rows, FINDING_SCHEMA))
                count += len(rows)
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, FINDING_SCHEMA))
    return count + len(rows)


def _over_time(hours: DataFrame, count: int) -> tuple[str, dict[str, list[tuple[int, float]]]]:
    from pyspark.sql import functions as sql

    step, begins = ("hour", sql.col("hour"))
    if count > _HOURS:
        step, begins = "day", sql.col("hour") - sql.col("hour") % _DAY_US
    top = hours.groupBy("topic").agg(sql.sum("messages").alias("all")).orderBy(sql.desc("all"), "topic").limit(_TOPICS)
    names = [row["topic"] for row in top.collect()]
    rows = (
        hours.where(sql.col("topic").isin(*names) & (sql.col("hour") > 0))
        .groupBy("topic", begins.alias("time"))
        .agg(sql.sum("messages").alias("messages"))
        .orderBy("time")
        .collect()
    )
    found: dict[str, list[tuple[int, float]]] = {topic: [] for topic in names}
    for row in rows:
        found[row["topic"]].append((row["time"], row["messages"]))
    return step, found
