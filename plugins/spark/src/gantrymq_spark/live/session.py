"""The driver's side of one query: start offsets, planning and commits. Called by Spark's classes and by tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gantrymq.client import Client, Reader
from gantrymq.errors import ClientError
from gantrymq.plugin.client import AGAIN_S, is_transient
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.world import World
from gantrymq_spark.live.offsets import (
    Loss,
    Offsets,
    QueuePosition,
    QueueRange,
    Snapshot,
    ranges_between,
    report_losses,
)
from gantrymq_spark.live.options import LiveOptions
from gantrymq_spark.live.planner import DEFAULT_RECORD_BYTES, Planner, split
from gantrymq_spark.live.pushdown import PushedFilters
from gantrymq_spark.live.queue_view import QueueView
from gantrymq_spark.live.range_reader import RangeReadOptions


def new_client(options: LiveOptions, world: World) -> Client:
    """Return the client of a query or task, not started."""
    return Client(options.namesrv, world=world, tls=options.tls, credentials=options.credentials)


@asynccontextmanager
async def query_reader(options: LiveOptions, world: World) -> AsyncIterator[Reader]:
    """Provide a reader of the query's group, with a client of its own."""
    async with new_client(options, world) as client:
        yield client.reader(group=options.group)


def range_read_options(options: LiveOptions, columns: Sequence[str]) -> RangeReadOptions:
    """Return the options that tasks need."""
    return RangeReadOptions(
        columns=tuple(columns),
        expression=options.expression,
        expression_type=options.expression_type,
        stored_bodies=options.stored_bodies,
        body_problems=options.body_problems,
        fail_on_data_loss=options.fail_on_data_loss,
        wait_ms=options.wait_ms,
    )


class LiveSession:
    """The session of one query in the driver; an async context manager."""

    def __init__(self, options: LiveOptions, world: World) -> None:
        """Nothing is opened yet."""
        self._options = options
        self._clock = world.clock
        self._client = new_client(options, world)
        self._consumer: Reader
        self._view: QueueView
        self._planner = Planner(options.max_delay_ms)
        self._reported: set[Loss] = set()

    async def __aenter__(self) -> LiveSession:
        await self._client.start()
        self._consumer = self._client.reader(group=self._options.group)
        self._view = QueueView(self._client.admin, self._consumer, self._options.wanted)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    # --- batch ------------------------------------------------------------------------------------------------------

    async def batch_tasks(self, pushed: PushedFilters) -> list[QueueRange]:
        """Return the ranges of the tasks of a batch query.

        Raises:
            DataLost, ConfigError, ClientError: as in `QueueView`.
        """
        snapshot = await self._view.first_snapshot()
        now_ms = self._clock.now_ms()
        starts, losses = await self._view.resolve(self._options.starting, snapshot, now_ms)
        ends, more = await self._view.resolve(self._options.ending, snapshot, now_ms)
        self._settle([*losses, *more])
        ranges = []
        for queue, there in snapshot.queues.items():
            if not pushed.wants(queue):
                continue
            first, end = max(starts[queue], pushed.first_offset), ends[queue]
            if pushed.end_offset is not None:
                end = min(end, pushed.end_offset)
            if pushed.first_ms is not None:
                first = max(first, await self._view.offset_at(queue, there, pushed.first_ms))
            if pushed.end_ms is not None:
                end = min(end, await self._view.offset_at(queue, there, pushed.end_ms))
            if first < end:
                ranges.append(QueueRange(queue, first, end))
        return await self._split(ranges)

    async def bounds(self) -> dict[MessageQueue, tuple[int, int]]:
        """Return the first queue offset and the end of every queue. Raises as `batch_tasks`."""
        snapshot = await self._view.first_snapshot()
        return {queue: (there.first, there.end) for queue, there in snapshot.queues.items()}

    # --- streaming --------------------------------------------------------------------------------------------------

    async def initial(self) -> Offsets:
        """Return the start of a stream. Raises as `batch_tasks`."""
        snapshot = await self._view.first_snapshot()
        starts, losses = await self._view.resolve(self._options.starting, snapshot, self._clock.now_ms())
        self._settle(losses)
        return Offsets({queue: QueuePosition(at, snapshot.queues[queue].stored_ms) for queue, at in starts.items()})

    async def aim(self) -> None:
        """Limit the stream to the messages that exist now."""
        self._planner.aim(await self._look(Offsets()))

    async def latest(self, read: Offsets, *, limited: bool, max_offsets: int | None) -> Offsets:
        """Return the end of the next micro-batch; *read* itself if there is nothing to do.

        Args:
            read: the end of the last micro-batch.
            limited: whether the limits of the options apply.
            max_offsets: maximum of this micro-batch, None for no limit.

        Raises:
            DataLost: messages are gone and fail_on_data_loss is true.
            ClientError: no name server responded within wait_ms, or a broker refuses.
        """
        now = await self._look(read)
        planned = self._planner.step(
            read,
            now,
            round(self._clock.monotonic() * 1000),
            max_offsets=max_offsets if limited else None,
            min_offsets=self._options.min_offsets if limited else None,
        )
        self._settle(planned.losses)
        return planned.offsets

    async def tasks(self, start: Offsets, end: Offsets) -> list[QueueRange]:
        """Return the ranges of the tasks of the micro-batch from *start* to *end*."""
        return await self._split(ranges_between(start, end))

    async def commit(self, end: Offsets) -> None:
        """Commit offsets to the brokers if the user named a group. Raises as `Reader.commit`."""
        if self._options.commits:
            for queue, reached in end.queues.items():
                await self._consumer.commit(queue, reached.next)

    async def _look(self, read: Offsets) -> Snapshot:
        """Like `QueueView.look`, but wait for name servers as tasks wait for brokers."""
        begun = self._clock.monotonic()
        while True:
            try:
                return await self._view.look(read)
            except ClientError as problem:
                if not is_transient(problem) or (self._clock.monotonic() - begun) * 1000 >= self._options.wait_ms:
                    raise
            await self._clock.sleep(AGAIN_S)

    # --- both -------------------------------------------------------------------------------------------------------

    async def _split(self, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        sizes = {}
        if self._options.max_bytes is not None:
            sizes = {each.queue: await self._record_bytes(each) for each in ranges}
        return split(
            ranges,
            min_tasks=self._options.min_partitions,
            max_records=self._options.max_records,
            max_bytes=self._options.max_bytes,
            record_bytes=sizes,
        )

    async def _record_bytes(self, each: QueueRange) -> float:
        """Return the mean record size at the range's start and middle."""
        total = count = 0
        for at in sorted({each.first, (each.first + each.end) // 2}):
            found = await self._consumer.pull_records(each.queue, at)
            if found.records:
                total += len(found.records)
                count += found.next_offset - at
        return total / count if count else DEFAULT_RECORD_BYTES

    def _settle(self, losses: Sequence[Loss]) -> None:
        """Report each loss once."""
        report_losses([loss for loss in losses if loss not in self._reported], fail=self._options.fail_on_data_loss)
        self._reported.update(losses)
