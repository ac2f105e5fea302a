"""The source and the sink ``gantrymq`` for Spark. Imports pyspark, as does `sink.writers`.

Every pushed filter is returned to Spark, which applies it again. A reader lives in a process of the driver, where it
keeps its clients between calls; tasks receive it without them and open their own consumer.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from gantrymq.errors import ClientError, ConfigError
from gantrymq.plugin.model import ALL, MessageQueue
from gantrymq.plugin.real_world import real_world
from gantrymq_spark.columns import selected, spark_schema
from gantrymq_spark.live.offsets import Offsets, QueueRange
from gantrymq_spark.live.options import LiveOptions, read_columns, read_options
from gantrymq_spark.live.pushdown import PushedFilters, push_filters
from gantrymq_spark.live.range_reader import RangeReadOptions, read_range
from gantrymq_spark.live.session import LiveSession, query_reader, range_read_options
from gantrymq_spark.sink import options as sink_options
from gantrymq_spark.sink.writers import BatchWriter, StreamWriter, batch_writer, stream_writer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_LOG = logging.getLogger(__name__)


class QueuePartition(InputPartition):
    """The range of one task."""

    def __init__(self, task: QueueRange) -> None:
        self.topic, self.broker_name, self.queue_id = task.queue
        self.first, self.end = task.first, task.end

    def range(self) -> QueueRange:
        """Return the range."""
        return QueueRange(MessageQueue(self.topic, self.broker_name, self.queue_id), self.first, self.end)


def _batches(options: LiveOptions, task: QueueRange, range_options: RangeReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a range, in the process of a task."""
    world = real_world()
    with asyncio.Runner() as runner:
        opened = query_reader(options, world)
        batches = read_range(runner.run(opened.__aenter__()), world.clock, task, range_options)
        try:
            while (batch := runner.run(_following(batches))) is not None:
                yield batch
        finally:
            runner.run(batches.aclose())
            runner.run(opened.__aexit__(None, None, None))


async def _following(batches: Any) -> pa.RecordBatch | None:
    return await anext(batches, None)


class BatchReader(DataSourceReader):
    """The reader of one batch query."""

    def __init__(self, options: LiveOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of tasks."""

        async def plan() -> list[QueueRange]:
            async with LiveSession(self._options, real_world()) as session:
                return await session.batch_tasks(self._pushed)

        return [QueuePartition(task) for task in asyncio.run(plan())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        if not isinstance(partition, QueuePartition):  # Spark's own partition for an empty list
            return iter(())
        return _batches(self._options, partition.range(), range_read_options(self._options, self._columns))


class FilteringReader(BatchReader):
    """The reader of one batch query with option filterPushdown.

    It is not the default because Spark 4.3 reuses the reader that received the filters of one query for later queries
    of the same DataFrame without filters, which then miss rows.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Reduce what is read; Spark still applies all filters."""
        self._pushed = push_filters(filters)
        if self._options.expression == ALL and self._pushed.expression != ALL:
            self._options = attrs.evolve(self._options, expression=self._pushed.expression)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one stream. Offsets are JSON of `Offsets`."""

    def __init__(self, options: LiveOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._runner: asyncio.Runner | None = None
        self._session: LiveSession | None = None
        self._committed: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, without clients."""
        return {**self.__dict__, "_runner": None, "_session": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of a new stream."""
        found: Offsets = self._run(self._opened().initial())
        self._committed = found.to_json()  # nothing is read yet, and the group may not exist
        return self._committed

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch."""
        self.commit(start)  # Spark calls commit when the next micro-batch begins, so never for the last one
        read = Offsets.from_json(start)
        limited = not isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_offsets
        found: Offsets = self._run(self._opened().latest(read, limited=limited, max_offsets=most))
        return start if found is read else found.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options; Spark supports one kind at a time, `LiveSession.latest` applies both."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Limit the stream to the messages that exist now."""
        self._run(self._opened().aim())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of tasks."""
        tasks = self._run(self._opened().tasks(Offsets.from_json(start), Offsets.from_json(end)))
        return [QueuePartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of one task."""
        if not isinstance(partition, QueuePartition):  # Spark's own partition for an empty list
            return iter(())
        return _batches(self._options, partition.range(), range_read_options(self._options, self._columns))

    def commit(self, end: dict[str, Any]) -> None:
        """Commit offsets to the brokers if the user named a group; everything before *end* is processed."""
        if self._options.commits and end != self._committed:
            try:
                self._run(self._opened().commit(Offsets.from_json(end)))
            except ClientError as problem:  # lag looks longer for a while; only the checkpoint matters
                _LOG.warning("offsets of group %s were not committed: %s", self._options.group, problem)
                return
            self._committed = end

    def stop(self) -> None:
        """Close the clients."""
        session, self._session = self._session, None
        runner, self._runner = self._runner, None
        if runner is not None:
            if session is not None:
                runner.run(session.__aexit__())
            runner.close()

    def _opened(self) -> LiveSession:
        if self._session is None:
            session = LiveSession(self._options, real_world())
            self._run(session.__aenter__())
            self._session = session
        return self._session

    def _run(self, work: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)


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
