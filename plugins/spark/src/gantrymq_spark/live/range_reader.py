"""Reads one range of a queue as Arrow batches: every offset of it exactly once, or reported as lost.

If a broker is unreachable, busy or restarting, the request is retried every second until *wait_ms* have passed without
an answer. The same applies if the queue ends before the range does, which a restarting broker may report for a moment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
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
_BATCH_ROWS = 8192
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
    held = _PendingBatch(wanted, options)
    at, silent_since = wanted.first, clock.monotonic()
    while at < wanted.end:
        try:
            found = await _pull(consumer, wanted, at, options)
        except ClientError as problem:
            if not is_transient(problem) or (clock.monotonic() - silent_since) * 1000 >= options.wait_ms:
                raise
            await clock.sleep(AGAIN_S)
            continue
        begun, at = at, _next(found, at)
        if at > begun:
            silent_since = clock.monotonic()
            _report_skipped(found, wanted, begun, at, options)
            held.add(found)
            if held.full and (batch := held.batch()).num_rows:
                yield batch
        elif (clock.monotonic() - silent_since) * 1000 < options.wait_ms:
            await clock.sleep(AGAIN_S)
        else:
            report_losses([Loss(LossKind.TRUNCATED, wanted.queue, at, wanted.end)], fail=options.fail_on_data_loss)
            break
    if held.rows and (batch := held.batch()).num_rows:
        yield batch


async def _pull(consumer: Reader, wanted: QueueRange, at: int, options: RangeReadOptions) -> PulledRecords:
    return await consumer.pull_records(
        wanted.queue,
        at,
        max_count=min(wanted.end - at, _PULL_COUNT),
        expression=options.expression,
        expression_type=options.expression_type,
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
        self._starts: list[Any] = []
        self._bytes = 0
        self._delta = 0
        self.rows = 0

    @property
    def full(self) -> bool:
        """Whether the batch is large enough."""
        return self.rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES

    def add(self, found: PulledRecords) -> None:
        """Add the records that belong to the range."""
        if not found.records:
            return
        self._delta = found.offset_delta
        data, starts = unwrapped(found.records, record_positions(found.records))
        offsets = gather(np.frombuffer(data, dtype=np.uint8), starts + _QUEUE_OFFSET_AT, 8).view(">i8")
        offsets = offsets + found.offset_delta
        starts = starts[(offsets >= self._selection.first) & (offsets < self._selection.end)]
        self._parts.append(data)
        self._starts.append(starts + self._bytes)
        self._bytes += len(data)
        self.rows += len(starts)

    def batch(self) -> pa.RecordBatch:
        """Return the collected records as a batch and clear them."""
        parts, starts = self._parts, self._starts
        self._parts, self._starts, self._bytes, self.rows = [], [], 0, 0
        made = record_batch(
            b"".join(parts),
            np.concatenate(starts),
            NO_LOG,
            self._selection.queue.broker_name,
            columns=self._names,
            stored_bodies=self._options.stored_bodies,
            queue_offset_delta=self._delta,
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
