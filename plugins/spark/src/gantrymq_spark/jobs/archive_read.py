"""Reads an archive as a DataFrame: exactly the files that its commits name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.columns import COLUMNS, spark_schema
from gantrymq_spark.jobs.archive_layout import ArchivedFile, ArchiveState
from gantrymq_spark.jobs.archive_manifest import data_path, read_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_archive(
    spark: SparkSession,
    folder: str,
    *,
    topics: Collection[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    state: ArchiveState | None = None,
) -> DataFrame:
    """Return the messages of an archive with all columns.

    Topics and times exclude whole files by the manifest; files that are read may have other rows, so filter the result
    as well.

    Args:
        spark: any session; the sources are not used.
        folder: the archive's root, which executors must see.
        topics: topics to read; None for all.
        since_ms, until_ms: store times; inclusive start and exclusive end.
        state: of the archive, if already read.

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
    """Return the content of the archive. Raises ConfigError and FormatError, as `read_archive`."""
    state = read_state(RealFiles(), Path(folder))
    if not state.version:
        raise ConfigError(
            f"{folder} is not an archive; `gantrymq pipeline archive {quote(folder)}` with --topic or --store "
            "creates one"
        )
    return state


def rows_of_files(spark: SparkSession, folder: str, files: Collection[ArchivedFile]) -> DataFrame:
    """Return the messages of some of its files with all columns."""
    from pyspark.sql import functions as sql

    if not files:
        return spark.createDataFrame([], spark_schema())
    paths = [f"file:{data_path(RealFiles(), Path(folder).absolute(), file)}" for file in files]
    # A file has its topic both in a column and in its folder's name; folder names are not used.
    rows = spark.read.schema(spark_schema()).parquet(*paths).select(*COLUMNS)
    # Files keep the stored bytes of bodies that cannot be decompressed, so that the archive loses nothing.
    return rows.withColumn("body", sql.when(sql.col("bodyProblem").isNull(), sql.col("body")))
