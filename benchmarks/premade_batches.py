"""A Spark source that repeats the first Arrow batch of a store's log: what Spark itself needs for such batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from gantrymq.world.real import RealFiles
from gantrymq_spark.columns import selected, spark_schema
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.store_options import StoreOptions, plan

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import it
PARTS = 8


class PremadeSource(DataSource):
    """Options: path of a store, columns, rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "premade"

    def schema(self) -> StructType:
        """Return the chosen columns."""
        return spark_schema(selected(self.options.get("columns")))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return PremadeReader(Path(self.options["path"]), tuple(schema.fieldNames()), int(self.options["rows"]))


class PremadeReader(DataSourceReader):
    """Each task makes one batch and yields it until it has its share of the rows."""

    def __init__(self, path: Path, columns: tuple[str, ...], rows: int) -> None:
        self._path = path
        self._columns = columns
        self._rows = rows // PARTS

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return [InputPartition(number) for number in range(PARTS)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        scan = LogScan(RealFiles(), plan(RealFiles(), self._path)[0])
        batches = scan.batches(StoreOptions(self._path).row_options(self._columns))
        first = next(batches)  # of one record
        batch = next(batches, first)
        batches.close()
        times, rest = divmod(self._rows, batch.num_rows)
        return chain(repeat(batch, times), iter([batch.slice(0, rest)] if rest else []))
