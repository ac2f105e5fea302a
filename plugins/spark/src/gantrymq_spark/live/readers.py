"""What Spark calls of the source ``gantrymq``: the classes of a batch and of a stream.

Every filter that is looked at goes back to Spark, which applies it again. A reader lives in a process of the driver,
where it keeps its clients between calls; tasks get it without them and open a consumer of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from gantrymq.errors import ClientError
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL
from gantrymq.world.real import real_world
from gantrymq_spark.live.offsets import Offsets, QueueRange
from gantrymq_spark.live.options import LiveOptions
from gantrymq_spark.live.pushdown import PushedFilters, push_filters
from gantrymq_spark.live.range_reader import RangeReadOptions, read_range
from gantrymq_spark.live.session import LiveSession, new_consumer, range_read_options

__all__ = ["BatchReader", "FilteringReader", "StreamReader"]

_LOG = logging.getLogger(__name__)


class QueuePartition(InputPartition):
    """What one task reads."""

    def __init__(self, task: QueueRange) -> None:
        self.topic, self.broker_name, self.queue_id = task.queue
        self.first, self.end = task.first, task.end

    def range(self) -> QueueRange:
        """The same."""
        return QueueRange(MessageQueue(self.topic, self.broker_name, self.queue_id), self.first, self.end)


def _batches(options: LiveOptions, task: QueueRange, how: RangeReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a range, in the process of a task."""
    world = real_world()
    with asyncio.Runner() as runner:
        consumer = new_consumer(options, world)
        batches = read_range(consumer, world.clock, task, how)
        runner.run(consumer.start())
        try:
            while (batch := runner.run(_following(batches))) is not None:
                yield batch
        finally:
            runner.run(batches.aclose())
            runner.run(consumer.close())


async def _following(batches: Any) -> pa.RecordBatch | None:
    return await anext(batches, None)


class BatchReader(DataSourceReader):
    """Of one batch query."""

    def __init__(self, options: LiveOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges for tasks."""

        async def plan() -> list[QueueRange]:
            async with LiveSession(self._options, real_world()) as session:
                return await session.batch_tasks(self._pushed)

        return [QueuePartition(task) for task in asyncio.run(plan())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of one task."""
        if not isinstance(partition, QueuePartition):  # Spark's own, where there is nothing to read
            return iter(())
        return _batches(self._options, partition.range(), range_read_options(self._options, self._columns))


class FilteringReader(BatchReader):
    """Of one batch query, with option filterPushdown.

    Spark 4.3 keeps the reader that got the filters of one query for later queries of the same DataFrame that have none,
    so that these miss rows; that is why it is no default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow what is read; Spark applies all of them all the same."""
        self._pushed = push_filters(filters)
        if self._options.expression == ALL and self._pushed.expression != ALL:
            self._options = attrs.evolve(self._options, expression=self._pushed.expression)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of one stream. Offsets are members as `Offsets` has them."""

    def __init__(self, options: LiveOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._runner: asyncio.Runner | None = None
        self._session: LiveSession | None = None
        self._committed: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to tasks: no clients."""
        return {**self.__dict__, "_runner": None, "_session": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new stream begins."""
        found: Offsets = self._run(self._opened().initial())
        self._committed = found.to_json()  # nothing is read yet, and the group may not be there
        return self._committed

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends."""
        self.commit(start)  # Spark itself tells of a micro-batch when the next one begins, and so of the last one never
        read = Offsets.from_json(start)
        limited = not isinstance(limit, ReadAllAvailable)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_offsets
        found: Offsets = self._run(self._opened().latest(read, limited=limited, max_offsets=most))
        return start if found is read else found.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of the options, of which Spark knows one kind at a time; `LiveSession.latest` knows both."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there now, and then end."""
        self._run(self._opened().aim())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Ranges for tasks."""
        tasks = self._run(self._opened().tasks(Offsets.from_json(start), Offsets.from_json(end)))
        return [QueuePartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of one task."""
        if not isinstance(partition, QueuePartition):  # Spark's own, where there is nothing to read
            return iter(())
        return _batches(self._options, partition.range(), range_read_options(self._options, self._columns))

    def commit(self, end: dict[str, Any]) -> None:
        """Store progress at the brokers, if the user named a group; everything before *end* is done."""
        if self._options.commits and end != self._committed:
            try:
                self._run(self._opened().commit(Offsets.from_json(end)))
            except ClientError as problem:  # lag looks longer for a while; the checkpoint is what counts
                _LOG.warning("progress of group %s is not stored: %s", self._options.group, problem)
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
