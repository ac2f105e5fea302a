"""Rates, sizes and skew, of messages of any input: plain Spark over few columns; bodies are not read.

found = stats(messages(spark, given, STATS_COLUMNS))
found.topics.show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STATS_COLUMNS", "Stats", "stats"]

STATS_COLUMNS = ("topic", "brokerName", "queueId", "storeTimestamp", "storeSize", "tags", "bornHost")
MOST = 1000  # tags and producers of a topic, the most frequent ones


@attrs.frozen
class Stats:
    """DataFrames; sizes in bytes of stored records, times in UTC."""

    topics: Any  # topic, messages, bytes, meanBytes, p50, p95, p99, maxBytes, first, last, perSecond, queues, skew
    queues: Any  # topic, brokerName, queueId, messages, bytes, share (of the topic's messages)
    tags: Any  # topic, tags, messages, bytes, share
    producers: Any  # topic, producer (address), messages, bytes, share
    rates: Any  # topic, time, messages, bytes, perSecond; a row for each minute or hour that has messages


def stats(rows: DataFrame, *, step_s: int = 3600) -> Stats:
    """Figures of *rows*.

    Args:
        rows: with `STATS_COLUMNS`; the ones of several figures are read anew for each, so cache them if they are few.
        step_s: seconds of a row of `Stats.rates`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    count, size = sql.count("*").alias("messages"), sql.sum("storeSize").alias("bytes")

    def shares(names: list[str]) -> DataFrame:
        found = rows.groupBy("topic", *names).agg(count, size)
        whole = sql.sum("messages").over(Window.partitionBy("topic"))
        return found.withColumn("share", sql.col("messages") / whole)

    def frequent(found: DataFrame) -> DataFrame:
        place = sql.row_number().over(Window.partitionBy("topic").orderBy(sql.desc("messages")))
        return found.withColumn("place", place).where(sql.col("place") <= MOST).drop("place")

    queues = shares(["brokerName", "queueId"])
    skew = queues.groupBy("topic").agg(
        sql.count("*").alias("queues"), (sql.max("messages") / sql.avg("messages")).alias("skew")
    )
    lasts = sql.unix_millis(sql.max("storeTimestamp")) - sql.unix_millis(sql.min("storeTimestamp"))
    topics = rows.groupBy("topic").agg(
        count,
        size,
        sql.avg("storeSize").alias("meanBytes"),
        *(
            sql.percentile_approx("storeSize", share).alias(name)
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ),
        sql.max("storeSize").alias("maxBytes"),
        sql.min("storeTimestamp").alias("first"),
        sql.max("storeTimestamp").alias("last"),
        (sql.count("*") * 1000 / sql.greatest(lasts, sql.lit(1000))).alias("perSecond"),
    )
    moment = sql.timestamp_seconds(sql.floor(sql.unix_seconds("storeTimestamp") / step_s) * step_s).alias("time")
    rates = rows.groupBy("topic", moment).agg(count, size).withColumn("perSecond", sql.col("messages") / step_s)
    named = rows.withColumn("producer", sql.regexp_replace("bornHost", ":[0-9]+$", ""))
    producers = named.groupBy("topic", "producer").agg(count, size)
    producers = producers.withColumn(
        "share", sql.col("messages") / sql.sum("messages").over(Window.partitionBy("topic"))
    )
    return Stats(
        topics.join(skew, "topic").orderBy(sql.desc("messages"), "topic"),
        queues.orderBy("topic", "brokerName", "queueId"),
        frequent(shares(["tags"])).orderBy("topic", sql.desc("messages")),
        frequent(producers).orderBy("topic", sql.desc("messages")),
        rates.orderBy("topic", "time"),
    )
