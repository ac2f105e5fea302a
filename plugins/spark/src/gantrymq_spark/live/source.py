"""The source and the sink ``gantrymq`` for Spark. Imports pyspark, as do `readers`, `sink.writers`, `sink.dedup`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from gantrymq.errors import ConfigError
from gantrymq_spark.columns import selected, spark_schema
from gantrymq_spark.live.options import read_columns, read_options
from gantrymq_spark.live.readers import BatchReader, FilteringReader, StreamReader
from gantrymq_spark.sink import options as sink_options
from gantrymq_spark.sink.writers import BatchWriter, StreamWriter, batch_writer, stream_writer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class LiveSource(DataSource):
    """``spark.read.format("gantrymq")`` and ``spark.readStream.format("gantrymq")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "gantrymq"

    def schema(self) -> StructType:
        """Return the columns that option ``columns`` names, all columns without it."""
        return spark_schema(read_columns(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query."""
        options = read_options(self.options, streaming=False, environ=os.environ)
        kind = FilteringReader if options.filter_pushdown else BatchReader
        return kind(options, _checked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        options = read_options(self.options, streaming=True, environ=os.environ)
        return StreamReader(options, _checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch query."""
        options = sink_options.read_options(self.options, streaming=False, environ=os.environ)
        return batch_writer(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a stream; in complete mode every result is sent as new messages."""
        options = sink_options.read_options(self.options, streaming=True, environ=os.environ)
        return stream_writer(options, schema)


def _checked(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of *schema*, which the user may have given.

    Raises:
        InvalidParameter: a column does not exist.
        ConfigError: a column has another type.
    """
    names = selected(schema.names)
    for given, known in zip(schema.fields, spark_schema(names).fields, strict=True):
        if given.dataType != known.dataType:
            raise ConfigError(
                f"schema: column {given.name} has type {given.dataType.simpleString()}, but in messages it is "
                f"{known.dataType.simpleString()}; cast it after reading"
            )
    return names
