"""The first rows of each table of statistics, sorted, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from gantrymq_spark.jobs.stats import StatsFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["StatsSummary", "stats_summary"]

POINTS = 5000  # in all lines of the chart
TOPICS = 8  # lines
_MS = 1000


@attrs.frozen
class StatsSummary:
    """The statistics that the command shows. Rows have the columns of `StatsFrames`; times are ms since 1970."""

    total: dict[str, Any]
    topics: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    tags: list[dict[str, Any]]
    keys: list[dict[str, Any]]
    producers: list[dict[str, Any]]
    values: list[dict[str, Any]] | None
    counts: dict[str, int]  # total rows of each table
    step: str
    rates: dict[str, list[tuple[int, int, int]]]  # of the largest topics: ms, messages, bytes
    busiest: list[dict[str, Any]]  # times with the most messages, of all topics
    left_out: int = 0  # older points that `rates` lacks

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as a JSON document."""
        rates = {
            topic: [{"time": time, "messages": messages, "bytes": size} for time, messages, size in points]
            for topic, points in self.rates.items()
        }
        members = attrs.asdict(self, recurse=False)
        left_out = members.pop("left_out")
        return {**members, "rates": rates, "ratesLeftOut": left_out}


def stats_summary(figures: StatsFrames, step: str, top: int) -> StatsSummary:
    """Collect *top* rows of each table on the driver."""
    from pyspark.sql import functions as sql

    counts: dict[str, int] = {}

    def first(name: str, frame: DataFrame, *more: str) -> list[dict[str, Any]]:
        counts[name] = frame.count()
        rows = frame.orderBy(sql.desc("messages"), *more).limit(top).collect()
        return [_plain(row.asDict()) for row in rows]

    topics = first("topics", figures.topics, "topic")
    names = [row["topic"] for row in topics[:TOPICS]]
    rates = figures.rates.where(sql.col("topic").isin(*names) & sql.col("time").isNotNull())
    found: dict[str, list[tuple[int, int, int]]] = {name: [] for name in names}
    for row in rates.orderBy(sql.desc("time")).limit(POINTS).collect()[::-1]:
        found[row["topic"]].append((_ms(row["time"]), row["messages"], row["bytes"]))
    drawn = sum(map(len, found.values()))
    left_out = rates.count() - drawn if drawn == POINTS else 0
    amounts = (sql.sum(each).alias(each) for each in ("messages", "bytes"))
    by_time = figures.rates.where("time is not null").groupBy("time").agg(*amounts)
    busiest = by_time.orderBy(sql.desc("messages"), "time").limit(top).collect()
    return StatsSummary(
        _plain(figures.total.collect()[0].asDict()),
        topics,
        first("queues", figures.queues, "topic", "queueId"),
        first("tags", figures.tags, "topic", "tag"),
        first("keys", figures.keys, "key"),
        first("producers", figures.producers, "producer"),
        None if figures.values is None else first("values", figures.values, "value"),
        counts,
        step,
        found,
        [_plain(row.asDict()) for row in busiest],
        left_out,
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _ms(value) if hasattr(value, "timestamp") else value for name, value in row.items()}


def _ms(time: Any) -> int:
    return int(time.timestamp() * _MS)
