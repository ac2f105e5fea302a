"""The source and sink ``gantrymq`` as Spark sees it. Here, only this module and `readers` import pyspark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from gantrymq.errors import ConfigError
from gantrymq_spark.columns import selected, spark_schema
from gantrymq_spark.live.options import read_columns, read_options
from gantrymq_spark.live.readers import BatchReader, StreamReader
from gantrymq_spark.sink.options import SinkOptions, read_sink_options
from gantrymq_spark.sink.rows import check_columns
from gantrymq_spark.sink.writers import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LiveSource"]


class LiveSource(DataSource):
    """``spark.read.format("gantrymq")`` and ``spark.readStream.format("gantrymq")``."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "gantrymq"

    def schema(self) -> StructType:
        """The columns that the option ``columns`` names, all of them without it."""
        return spark_schema(read_columns(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """For a batch query."""
        options = read_options(self.options, streaming=False, environ=os.environ)
        return BatchReader(options, _checked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """For a stream."""
        options = read_options(self.options, streaming=True, environ=os.environ)
        return StreamReader(options, _checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For a batch of rows. Raises ConfigError."""
        if overwrite:
            raise ConfigError('messages of a topic cannot be overwritten; write with mode("append")')
        return BatchWriter(self._sink_options(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """For a stream of rows. Raises ConfigError."""
        return StreamWriter(self._sink_options(schema))

    def _sink_options(self, schema: StructType) -> SinkOptions:
        options = read_sink_options(self.options, os.environ)
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options)
        return options


def _checked(schema: StructType) -> tuple[str, ...]:
    """Names of the columns of *schema*, which a user may have given.

    Raises:
        InvalidParameter: one is no column of a message.
        ConfigError: one has another type.
    """
    names = selected(schema.names)
    for given, known in zip(schema.fields, spark_schema(names).fields, strict=True):
        if given.dataType != known.dataType:
            raise ConfigError(
                f"schema: column {given.name} has type {given.dataType.simpleString()}, of a message it is "
                f"{known.dataType.simpleString()}; cast it after reading"
            )
    return names
