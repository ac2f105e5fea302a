"""Reads one range of a queue as Arrow batches: every offset of it exactly once, or reported as lost.

The next pull is sent before the records of the previous one are used, so that the broker works at the same time.

If a broker is unreachable, busy or restarting, the request is retried every second until *wait_ms* have passed without
an answer. The same applies if the queue ends before the range does, which a restarting broker may report for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.client import PulledRecords, PullStatus, Reader
from gantrymq.errors import ClientError
from gantrymq.plugin.client import AGAIN_S, is_transient, parse_tags
from gantrymq.plugin.formats import read_record
from gantrymq.plugin.model import ALL, TAG
from gantrymq.plugin.world import Clock
from gantrymq_spark.batches import NO_LOG, record_batch
from gantrymq_spark.inner_batches import unwrapped
from gantrymq_spark.live.offsets import Loss, LossKind, QueueRange, report_losses
from gantrymq_spark.record_columns import gather
from gantrymq_spark.record_run import whole_records

_BATCH_BYTES = 4 * 1024 * 1024  # of records, approximately
_PULL_COUNT = 1024  # requested; brokers have lower limits
_QUEUE_OFFSET_AT = 20  # in a record


@attrs.frozen
class RangeReadOptions:
    """Columns, filter and error handling for reading a range."""

    columns: tuple[str, ...]
    expression: str = ALL
    expression_type: str = TAG
    stored_bodies: bool = False
    body_problems: str = "null"  # one of BODY_PROBLEMS
    fail_on_data_loss: bool = True
    wait_ms: int = 0

    @property
    def tags(self) -> frozenset[str]:
        """The tags to keep; empty for all."""
        return parse_tags(self.expression) if self.expression_type == TAG else frozenset()

    @property
    def everything(self) -> bool:
        """Whether no message is filtered out."""
        return self.expression_type == TAG and not self.tags


async def read_range(
    consumer: Reader, clock: Clock, wanted: QueueRange, options: RangeReadOptions
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the messages of *wanted* in order, in non-empty batches.

    Raises:
        DataLost: messages are gone and fail_on_data_loss is true.
        ClientError: the broker refuses, or has not answered for wait_ms.
        FormatError: a record cannot be read; or as `batch_of`.
    """
    pulls = _Pulls(consumer, wanted, options)
    try:
        async with aclosing(_batches(pulls, clock, wanted, options)) as batches:
            async for batch in batches:
                yield batch
    finally:
        await pulls.close()


async def _batches(
    pulls: _Pulls, clock: Clock, wanted: QueueRange, options: RangeReadOptions
) -> AsyncGenerator[pa.RecordBatch, None]:
    held = _PendingBatch(wanted, options)
    at, silent_since = wanted.first, clock.monotonic()
    while at < wanted.end:
        try:
            found = await pulls.take(at)
        except ClientError as problem:
            if not is_transient(problem) or (clock.monotonic() - silent_since) * 1000 >= options.wait_ms:
                raise
            await clock.sleep(AGAIN_S)
            continue
        begun, at = at, _next(found, at)
        if at > begun:
            _report_skipped(found, wanted, begun, at, options)
            await pulls.send(at)
            if held.filled and held.delta != found.offset_delta and (batch := held.batch()).num_rows:
                yield batch
            held.add(found)
            if held.full and (batch := held.batch()).num_rows:
                yield batch
            silent_since = clock.monotonic()  # the time that the rows were used for does not count
        elif (clock.monotonic() - silent_since) * 1000 < options.wait_ms:
            await clock.sleep(AGAIN_S)
        else:
            report_losses([Loss(LossKind.TRUNCATED, wanted.queue, at, wanted.end)], fail=options.fail_on_data_loss)
            break
    if held.filled and (batch := held.batch()).num_rows:
        yield batch


class _Pulls:
    """The pulls of one range; at most one is under way."""

    def __init__(self, consumer: Reader, wanted: QueueRange, options: RangeReadOptions) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._options = options
        self._ahead: asyncio.Task[PulledRecords] | None = None

    async def send(self, at: int) -> None:
        """Send the pull at offset *at* if the range has more; `take` for the same offset returns its answer."""
        if at < self._wanted.end:
            self._ahead = asyncio.create_task(self._pull(at))
            await asyncio.sleep(0)  # the task begins; the event loop may stand still until the next batch is wanted

    async def take(self, at: int) -> PulledRecords:
        """Return the answer to the pull at *at*. Raises ClientError."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            try:
                return await ahead
            except ClientError as problem:  # perhaps because the event loop stood still for longer than it may take
                if not is_transient(problem):
                    raise
        return await self._pull(at)

    async def close(self) -> None:
        """Cancel a pull that nobody waits for."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _pull(self, at: int) -> PulledRecords:
        return await self._consumer.pull_records(
            self._wanted.queue,
            at,
            max_count=min(self._wanted.end - at, _PULL_COUNT),
            expression=self._options.expression,
            expression_type=self._options.expression_type,
        )


def _next(found: PulledRecords, at: int) -> int:
    """Return the next offset to read; *at* itself if nothing is available now."""
    if found.status is PullStatus.NO_NEW_MSG:
        return at
    return max(at, found.next_offset)


def _report_skipped(found: PulledRecords, wanted: QueueRange, begun: int, at: int, options: RangeReadOptions) -> None:
    """Report offsets as gone if a broker skips them without a filter."""
    gone = found.status is PullStatus.OFFSET_ILLEGAL or (
        found.status is PullStatus.NO_MATCHED_MSG and options.everything
    )
    if gone:
        report_losses(
            [Loss(LossKind.EXPIRED, wanted.queue, begun, min(at, wanted.end))], fail=options.fail_on_data_loss
        )


class _PendingBatch:
    """Records collected for the next batch."""

    def __init__(self, wanted: QueueRange, options: RangeReadOptions) -> None:
        self._selection = wanted
        self._options = options
        self._names = options.columns if not options.tags or "tags" in options.columns else (*options.columns, "tags")
        self._parts: list[Any] = []
        self._bytes = 0
        self.delta = 0  # of the collected records

    @property
    def filled(self) -> bool:
        """Whether there are records."""
        return bool(self._parts)

    @property
    def full(self) -> bool:
        """Whether the batch is large enough."""
        return self._bytes >= _BATCH_BYTES

    def add(self, found: PulledRecords) -> None:
        """Add the records of a pull."""
        if found.records:
            self.delta = found.offset_delta
            self._parts.append(found.records)
            self._bytes += len(found.records)

    def batch(self) -> pa.RecordBatch:
        """Return those of the collected records that belong to the range as a batch, and clear them.

        Raises:
            FormatError: as `record_positions`.
        """
        joined: Any = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._bytes = [], 0
        data, starts = unwrapped(joined, record_positions(joined))
        offsets = gather(np.frombuffer(data, dtype=np.uint8), starts + _QUEUE_OFFSET_AT, 8).view(">i8") + self.delta
        made = record_batch(
            data,
            starts[(offsets >= self._selection.first) & (offsets < self._selection.end)],
            NO_LOG,
            self._selection.queue.broker_name,
            columns=self._names,
            stored_bodies=self._options.stored_bodies,
            queue_offset_delta=self.delta,
            body_problems=self._options.body_problems,
        )
        return _with_tags(made, self._options.tags).select(list(self._options.columns))


def _with_tags(batch: pa.RecordBatch, tags: Sequence[str] | frozenset[str]) -> pa.RecordBatch:
    """Drop rows with other tags, because brokers compare only hashes."""
    if not tags:
        return batch
    return batch.filter(pc.is_in(batch.column("tags"), value_set=pa.array(sorted(tags), pa.string())))


def record_positions(data: bytes | bytearray | memoryview) -> Any:
    """Return the starts of the consecutive records in *data* as an int64 array.

    Lengths and topics are checked. CRCs are not, because the client checks them when it reads the reply's records.

    Raises:
        FormatError: *data* contains anything but complete records.
    """
    view, found, at = memoryview(data), [], 0
    while at < len(view):
        many = whole_records(view[at:])
        if many is None:
            found.append(np.array([at], dtype=np.int64))
            at += read_record(view, at).total_size
        else:
            found.append(many.starts + at)
            at += int(many.starts[-1]) + many.last(1)[0].total_size
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
