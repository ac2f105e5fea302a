"""Messages of live topics and of store folders as Spark DataFrames, and jobs built on them.

    register(spark)                      registers the sources and the sink with a session
    session                              the session of the commands; checks of Spark and Java
    columns                              the columns of a message
    batches, records                     stored records as Arrow batches, built by column without Python objects per row
    property_texts, inner_batches
    compiled_columns                     columns that a compiled function builds
    record_run, log_scan                 ranges of a log, checked many records at a time; their damage
    option_texts                         texts of options, and the values that several of them have
    store_options, store_reading,        the sources gantrymq.store and gantrymq.damage; ranges of a store's log
    store_source
    live                                 the source gantrymq
    sink                                 the sink gantrymq
    jobs                                 archive, query, audit, rebuild, replay, stats
    report                               HTML reports with tables and charts, for audit and stats
    commands                             ``gantrymq pipeline``

Nothing here imports pyspark before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"  # otherwise Spark rejects sources with pushFilters


def register(spark: SparkSession) -> None:
    """Register the sources and the sink with *spark*, for ``spark.read.format(...)``, ``readStream``, ``write`` and
    ``writeStream``.

    Enables filter pushdown to Python data sources for batch queries, which the sources require.

    Raises:
        ConfigError: Spark is missing or too old.
    """
    from gantrymq_spark.session import refuse_old_spark

    refuse_old_spark()
    from gantrymq_spark.live.source import LiveSource
    from gantrymq_spark.store_source import DamageSource, StoreSource

    spark.conf.set(PUSHDOWN, "true")
    for source in (LiveSource, StoreSource, DamageSource):
        spark.dataSource.register(source)
