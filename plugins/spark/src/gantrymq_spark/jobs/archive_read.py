"""An archive as a DataFrame: the files that its commits name, and no other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.world.real import RealFiles
from gantrymq_spark.columns import COLUMNS, spark_schema
from gantrymq_spark.jobs.archive_layout import ArchivedFile, ArchiveState
from gantrymq_spark.jobs.archive_manifest import data_path, read_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["open_state", "read_archive", "rows_of_files"]


def read_archive(
    spark: SparkSession,
    folder: str,
    *,
    topics: Collection[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    state: ArchiveState | None = None,
) -> DataFrame:
    """The messages of an archive, all columns.

    Topics and times leave out whole files that the manifest says have none of them; other rows of a file that is read
    are there, so filter for them as well.

    Args:
        spark: any session; the sources are not used.
        folder: the archive's root, which executors have to see.
        topics: wanted ones; None for all.
        since_ms, until_ms: store times; from, and before.
        state: of the archive, if it was read already.

    Raises:
        ConfigError: there is no archive.
        FormatError: its manifest cannot be read.
    """
    state = state or open_state(folder)
    chosen = [
        file
        for file in state.files.values()
        if (topics is None or file.topic in topics)
        and (since_ms is None or file.last_ms >= since_ms or not file.first_ms)
        and (until_ms is None or file.first_ms < until_ms)
    ]
    return rows_of_files(spark, folder, chosen)


def open_state(folder: str) -> ArchiveState:
    """What is in the archive. Raises ConfigError and FormatError, as `read_archive`."""
    state = read_state(RealFiles(), Path(folder))
    if not state.version:
        raise ConfigError(
            f"{folder} is no archive; `gantrymq pipeline archive {folder}` with --topic or --store makes one"
        )
    return state


def rows_of_files(spark: SparkSession, folder: str, files: Collection[ArchivedFile]) -> DataFrame:
    """The messages of some of its files, all columns."""
    from pyspark.sql import functions as sql

    if not files:
        return spark.createDataFrame([], spark_schema())
    paths = [f"file:{data_path(RealFiles(), Path(folder).absolute(), file)}" for file in files]
    # A file has its topic in a column as well as in its folder's name; folders are not looked at.
    rows = spark.read.schema(spark_schema()).parquet(*paths).select(*COLUMNS)
    # Files keep the stored bytes of bodies that cannot be decompressed, so that the archive loses nothing.
    return rows.withColumn("body", sql.when(sql.col("bodyProblem").isNull(), sql.col("body")))
