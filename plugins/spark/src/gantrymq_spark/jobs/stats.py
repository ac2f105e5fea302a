"""Rates, sizes and skew of messages, as Spark SQL over their columns; bodies are not read.

    frames = stats(messages(spark, given, STATS_COLUMNS))
    frames.topics.orderBy(sql.desc("messages")).show()

A summary has the first rows of each table, sorted, for people.

Sizes are those of stored records (storeSize). A producer is a message's origin host (bornHost without its port); with a
property, such as PGROUP, messages are also grouped by its value. Queues without messages do not appear, so skew, the
ratio of the largest queue's messages to the mean, ignores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.names import SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


STATS_COLUMNS = ("topic", "brokerName", "queueId", "storeSize", "tags", "keys", "bornHost", "storeTimestamp")
STEPS = ("minute", "hour", "day")
_PERCENTILES = (0.5, 0.9, 0.99)
_POINTS = 5000  # in all lines of the chart
_TOPICS = 8  # lines
_MS = 1000


@attrs.frozen
class StatsFrames:
    """DataFrames with few rows, in no order. Each has messages and bytes."""

    total: DataFrame  # + first, last (times), mean, p50, p90, p99, largest (bytes of a record)
    topics: DataFrame  # topic + the same, perSecond, bytesPerSecond, queues, skew
    queues: DataFrame  # brokerName, topic, queueId
    tags: DataFrame  # topic, tag
    keys: DataFrame  # key
    producers: DataFrame  # producer + number of topics
    values: DataFrame | None  # value of the given property
    rates: DataFrame  # topic, time (the start of a minute, hour or day)


def stats(messages: DataFrame, step: str = "hour", property_name: str | None = None) -> StatsFrames:
    """Return the statistics of *messages*, which have `STATS_COLUMNS`, and properties if *property_name* is given.

    Args:
        step: interval of rates, one of `STEPS`.

    Raises:
        ConfigError: *step* is unknown.
    """
    from pyspark.sql import functions as sql

    if step not in STEPS:
        raise ConfigError(f"{step!r} is not an interval of rates; write one of {', '.join(STEPS)}")
    amount = [sql.count("*").alias("messages"), sql.coalesce(sql.sum("storeSize"), sql.lit(0)).alias("bytes")]
    percentiles = sql.percentile_approx("storeSize", list(_PERCENTILES), 10_000)
    sizes = [
        *amount,
        sql.min("storeTimestamp").alias("first"),
        sql.max("storeTimestamp").alias("last"),
        sql.avg("storeSize").alias("mean"),
        *(percentiles[at].alias(f"p{share * 100:.0f}") for at, share in enumerate(_PERCENTILES)),
        sql.max("storeSize").alias("largest"),
    ]
    queues = messages.groupBy("brokerName", "topic", "queueId").agg(*amount)
    skew = queues.groupBy("topic").agg(
        sql.count("*").alias("queues"), (sql.max("messages") / sql.avg("messages")).alias("skew")
    )
    seconds = sql.greatest(
        sql.lit(1.0), (sql.unix_micros("last") - sql.unix_micros("first")).cast("double") / sql.lit(1e6)
    )
    topics = messages.groupBy("topic").agg(*sizes)
    topics = topics.withColumns(
        {"perSecond": sql.col("messages") / seconds, "bytesPerSecond": sql.col("bytes") / seconds}
    )
    key = sql.explode(sql.array_distinct(sql.split("keys", " "))).alias("key")
    return StatsFrames(
        messages.agg(*sizes),
        topics.join(skew, "topic"),
        queues,
        messages.groupBy("topic", sql.col("tags").alias("tag")).agg(*amount),
        messages.select(key, "storeSize").where("key != ''").groupBy("key").agg(*amount),
        messages.groupBy(_host(sql.col("bornHost")).alias("producer")).agg(
            *amount, sql.count_distinct("topic").alias("topics")
        ),
        None
        if property_name is None
        else messages.groupBy(sql.col("properties")[property_name].alias("value")).agg(*amount),
        messages.groupBy("topic", sql.date_trunc(step, "storeTimestamp").alias("time")).agg(*amount),
    )


def without_system_topics(messages: DataFrame) -> DataFrame:
    """Return the messages of user topics, including retries and dead letters."""
    from pyspark.sql import functions as sql

    topic = sql.col("topic")
    return messages.where(~topic.isin(*SYSTEM_TOPICS) & ~topic.startswith(SYSTEM_TOPIC_PREFIX))


def _host(host: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.regexp_replace(host, r":\d+$", "")


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
    names = [row["topic"] for row in topics[:_TOPICS]]
    rates = figures.rates.where(sql.col("topic").isin(*names) & sql.col("time").isNotNull())
    found: dict[str, list[tuple[int, int, int]]] = {name: [] for name in names}
    for row in rates.orderBy(sql.desc("time")).limit(_POINTS).collect()[::-1]:
        found[row["topic"]].append((_ms(row["time"]), row["messages"], row["bytes"]))
    drawn = sum(map(len, found.values()))
    left_out = rates.count() - drawn if drawn == _POINTS else 0
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
