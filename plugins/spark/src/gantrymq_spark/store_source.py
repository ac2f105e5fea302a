"""The sources ``gantrymq.store`` (messages) and ``gantrymq.damage`` over the folder of a store.

This module imports pyspark; `gantrymq_spark.register` imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from gantrymq.errors import ConfigError
from gantrymq_spark.columns import COLUMNS, spark_schema
from gantrymq_spark.log_scan import damage_spark_schema
from gantrymq_spark.store_options import DAMAGE_OPTIONS, StoreOptions, StoreRange, read_store_options
from gantrymq_spark.store_reading import LogTail, damage_of_range, plan_read, rows_of_range, with_store_errors

_STORE, _DAMAGE = "gantrymq.store", "gantrymq.damage"
_OFFSET = "logOffset"


def chosen_columns(source: str, schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema given by the user.

    Raises:
        ConfigError: a column does not exist or has another type.
    """
    for field in schema.fields:
        if field.name not in COLUMNS:
            raise ConfigError(f"the source {source} has no column {field.name!r}; the columns are {', '.join(COLUMNS)}")
        own = spark_schema([field.name]).fields[0]
        if field.dataType != own.dataType or not field.nullable:
            null = "" if field.nullable else " not null"
            raise ConfigError(
                f"column {field.name} of the source {source} is {own.dataType.simpleString()}, not "
                f"{field.dataType.simpleString()}{null}; use that type, or name columns with option columns"
            )
    return tuple(schema.fieldNames())


@attrs.frozen
class StorePartition(InputPartition):
    """One range of the log."""

    part: StoreRange


class StoreSource(DataSource):
    """The messages of a store."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return _STORE

    def schema(self) -> StructType:
        """Return the columns that option ``columns`` names. Raises ConfigError."""
        return spark_schema(self._read_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the whole store. Raises ConfigError."""
        return StoreReader(self._read_options(), chosen_columns(_STORE, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader that follows the log. Raises ConfigError."""
        return StoreStreamReader(self._read_options(), chosen_columns(_STORE, schema))

    def _read_options(self) -> StoreOptions:
        return read_store_options(dict(self.options), source=_STORE)


class DamageSource(DataSource):
    """Ranges of a store's log that hold no sound record."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return _DAMAGE

    def schema(self) -> StructType:
        """See `gantrymq_spark.log_scan`."""
        return damage_spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the whole store. Raises ConfigError."""
        if schema != damage_spark_schema():
            raise ConfigError(f"the source {_DAMAGE} has fixed columns; read it without a schema, then select")
        return DamageReader(read_store_options(dict(self.options), source=_DAMAGE, known=DAMAGE_OPTIONS))


class _RangesReader(DataSourceReader):
    def __init__(self, options: StoreOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of the log. Raises StoreError."""
        return [StorePartition(part) for part in plan_read(self._options)]


class StoreReader(_RangesReader):
    """Reads ranges of a log on executors.

    It has no pushFilters: Spark 4.3 reuses the reader that received the filters of one query for later queries on the
    same frame.
    """

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options)
        self._columns = columns

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range."""
        if not isinstance(partition, StorePartition):  # Spark's own partition for an empty list
            return iter(())
        return rows_of_range(self._options, partition.part, self._columns)


class DamageReader(_RangesReader):
    """Reads ranges of a log on executors."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range."""
        if not isinstance(partition, StorePartition):
            return iter(())
        return damage_of_range(self._options, partition.part)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of a growing log."""

    def __init__(self, options: StoreOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._target: int | None = None  # with Trigger.AvailableNow

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the start of a new query."""
        return {_OFFSET: with_store_errors(self._options.path, LogTail(self._options).initial)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of option maxBytesPerTrigger."""
        limit = self._options.trigger_bytes
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the data that exists now."""
        self._target = self._end(None, None)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the last sound record, within the limit."""
        at = start[_OFFSET]
        end = self._end(at, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)
        return {_OFFSET: end if self._target is None else max(at, min(end, self._target))}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the end of the log for the query's progress."""
        return {_OFFSET: self._end(None, None)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the ranges of one micro-batch."""
        tail = LogTail(self._options)
        parts = with_store_errors(self._options.path, lambda: tail.partitions(start[_OFFSET], end[_OFFSET]))
        return [StorePartition(part) for part in parts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range."""
        if not isinstance(partition, StorePartition):  # Spark's own partition for an empty list
            return iter(())
        return rows_of_range(self._options, partition.part, self._columns)

    def _end(self, start: int | None, limit_bytes: int | None) -> int:
        return with_store_errors(self._options.path, lambda: LogTail(self._options).end(start, limit_bytes))
