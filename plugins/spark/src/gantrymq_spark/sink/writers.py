"""What Spark calls of the sink ``gantrymq``."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gantrymq.client import Producer
from gantrymq.world.real import real_world
from gantrymq_spark.sink.options import SinkOptions
from gantrymq_spark.sink.rows import rows_of
from gantrymq_spark.sink.sending import run_sending, send_rows
from gantrymq_spark.sink.sink_ids import row_ids

__all__ = ["BatchWriter", "StreamWriter", "Written"]

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties of a stream's tasks
_LOG = logging.getLogger(__name__)


@attrs.define
class Written(WriterCommitMessage):
    """What one task sent."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Of one write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._write_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one partition. Raises ClientError, ConfigError, MessageIllegal."""
        return _written(self._options, self._write_id, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Everything is stored."""

    def abort(self, messages: list[Any]) -> None:
        """Say what stays: messages cannot be taken back."""
        _tell_abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Of one stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one partition of a micro-batch. Raises as `BatchWriter.write`."""
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        return _written(self._options, f"{query}.{batch}", iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Everything is stored."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say what stays: messages cannot be taken back."""
        _tell_abort(messages)


def _written(options: SinkOptions, prefix: str, batches: Iterator[pa.RecordBatch]) -> Written:
    context = TaskContext.get()
    assert context is not None
    world = real_world()
    ids = row_ids(prefix, context.partitionId())
    rows = (row for batch in batches for row in rows_of(batch, options, ids, world.clock.now_ms()))

    async def send() -> int:
        producer = Producer(options.group, options.namesrv, world=world, tls=options.tls)
        async with producer:
            return await send_rows(producer, rows, batch_size=options.batch_size, timeout_s=options.timeout_ms / 1000)

    return Written(run_sending(send()))


def _tell_abort(messages: list[Any]) -> None:
    rows = sum(each.rows for each in messages if each is not None)
    _LOG.warning("a write failed; %d rows of its other tasks are stored all the same, and come again with it", rows)
