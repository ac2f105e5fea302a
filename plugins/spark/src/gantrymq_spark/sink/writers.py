"""The classes of the sink ``gantrymq`` that Spark calls, for batch queries and streams.

A writer is created in the driver and sent to the tasks. The ids of a stream are built from the task's micro-batch
properties; those of a batch query from an id of the writer, which all attempts of a task share.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gantrymq.client import Client
from gantrymq.errors import ConfigError
from gantrymq.plugin.real_world import real_world
from gantrymq.plugin.world import Clock
from gantrymq_spark.sink.options import SinkOptions, check_columns
from gantrymq_spark.sink.rows import SESSION_ZONE, RowConverter
from gantrymq_spark.sink.sending import Sender

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # Spark's names of local properties of a task


@dataclass
class WriteResult(WriterCommitMessage):
    """The result that a task returns to the driver."""

    messages: int


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch query. Raises ConfigError if the frame cannot be sent."""
    if overwrite:
        raise ConfigError('messages of a topic cannot be overwritten; write with mode("append")')
    check_columns(to_arrow_schema(schema, timezone="UTC"), options)
    return BatchWriter(options)


def stream_writer(options: SinkOptions, schema: StructType) -> StreamWriter:
    """Return the writer of a stream. Raises ConfigError if the frame cannot be sent."""
    check_columns(to_arrow_schema(schema, timezone="UTC"), options)
    return StreamWriter(options)


class BatchWriter(DataSourceArrowWriter):
    """The writer of one batch query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = options.job_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task."""
        partition = _context().partitionId()
        return _written(iterator, self._options, partition, f"{self._job}/{partition}")


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task of a micro-batch."""
        context = _context()
        partition = context.partitionId()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if (query is None or batch is None) and self._options.ids and self._options.id_column is None:
            raise ConfigError(
                "this Spark does not pass the micro-batch's id to tasks, and ids are built from it; set the option "
                "idColumn to a column with your own ids, or sinkIds to false"
            )
        return _written(iterator, self._options, partition, f"{query}/{batch}/{partition}")


def _context() -> TaskContext:
    found = TaskContext.get()
    assert found is not None  # only tasks write
    return found


def _written(
    batches: Iterator[pa.RecordBatch], options: SinkOptions, partition: int, prefix: str
) -> WriterCommitMessage:
    """Send all batches. No request is in flight while Spark produces the next batch."""
    world = real_world()
    rows = RowConverter(options, f"partition {partition}", prefix, _context().getLocalProperty(SESSION_ZONE))
    count = 0
    with asyncio.Runner() as runner:
        client = Client(options.namesrv, world=world, tls=options.tls, credentials=options.credentials)
        runner.run(client.start())
        try:
            sender = runner.run(_sender(client, world.clock, options))
            for batch in batches:
                count += runner.run(sender.send(rows.messages(batch)))
        finally:
            runner.run(client.close())
    return WriteResult(count)


async def _sender(client: Client, clock: Clock, options: SinkOptions) -> Sender:
    producer = client.producer(options.group, max_message_bytes=options.max_message_bytes)
    return Sender(producer, clock, options)
