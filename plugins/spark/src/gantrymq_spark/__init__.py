"""Messages as Spark DataFrames, from live topics and from store folders.

    register(spark)                      makes the sources known to a session

    columns                              the columns of a message
    batches, records, record_fields,     stored records as Arrow batches, made of columns and without objects for rows
    property_texts, slices, positions
    store_ranges, stretch, log_scan,     a store's folder: cut into ranges, checked many records at a time, its damage
    damage, store_stream
    store_options, store_reading,        the sources gantrymq.store and gantrymq.damage
    store_source

Nothing here imports pyspark before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the sources known to *spark*, for ``spark.read.format(...)`` and ``spark.readStream.format(...)``."""
    from gantrymq_spark.store_source import DamageSource, StoreSource

    for source in (StoreSource, DamageSource):
        spark.dataSource.register(source)
