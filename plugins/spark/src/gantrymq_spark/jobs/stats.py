"""Rates, sizes and skew of messages, as Spark SQL over their columns; bodies are not read.

    frames = stats(messages(spark, given, STATS_COLUMNS))
    frames.topics.orderBy(sql.desc("messages")).show()

Sizes are those of stored records (storeSize). A producer is a message's origin host (bornHost without its port); with a
property, such as PGROUP, messages are also grouped by its value. Queues without messages do not appear, so skew, the
ratio of the largest queue's messages to the mean, ignores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.names import SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


STATS_COLUMNS = ("topic", "brokerName", "queueId", "storeSize", "tags", "keys", "bornHost", "storeTimestamp")
STEPS = ("minute", "hour", "day")
_PERCENTILES = (0.5, 0.9, 0.99)


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
