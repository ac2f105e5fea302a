"""Messages as Spark DataFrames, from live topics and from store folders; and the jobs that are made of that.

    register(spark)                      makes the sources and the sink known to a session
    session, virtual_machine             a session of our own, for the commands; what Spark needs to be here

    columns                              the columns of a message
    batches, records, record_fields,     stored records as Arrow batches, made of columns and without objects for rows
    property_texts, slices, positions,
    inner_batches
    store_ranges, stretch, log_scan,     a store's folder: cut into ranges, checked many records at a time, its damage
    damage, store_stream
    store_options, store_reading,        the sources gantrymq.store and gantrymq.damage
    store_source
    live                                 the source gantrymq
    sink                                 the sink gantrymq
    jobs                                 archive, query, audit, rebuild, replay, stats
    report                               pages with tables and charts, of audit and stats
    commands                             ``gantrymq pipeline``

Nothing here imports pyspark before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"  # else Spark refuses sources that look at filters


def register(spark: SparkSession) -> None:
    """Make the sources and the sink known to *spark*, for ``spark.read.format(...)`` and all its sisters.

    Filters of batch queries are handed to Python sources from then on, as these want it.

    Raises:
        ConfigError: this Spark is none that has what they need.
    """
    from gantrymq_spark.session import refuse_old_spark

    refuse_old_spark()
    from gantrymq_spark.live.source import LiveSource
    from gantrymq_spark.store_source import DamageSource, StoreSource

    spark.conf.set(PUSHDOWN, "true")
    for source in (LiveSource, StoreSource, DamageSource):
        spark.dataSource.register(source)
