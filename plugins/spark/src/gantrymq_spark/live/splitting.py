"""Divides ranges of queues among tasks; no I/O.

One range is one task unless a limit requires more: *max_records* and *max_bytes* of one task, at least *min_tasks* in
all. Pieces of a range differ in length by at most one offset. Bytes are those of stored records, by the mean size that
the caller determined for a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gantrymq.plugin.model import MessageQueue
from gantrymq_spark.live.offsets import QueueRange

DEFAULT_RECORD_BYTES = 1024.0  # for a queue without a known mean


def split(
    ranges: Sequence[QueueRange],
    *,
    min_tasks: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    record_bytes: Mapping[MessageQueue, float] | None = None,
) -> list[QueueRange]:
    """Return the ranges of tasks, in order; together they cover *ranges*, and none is empty.

    Args:
        ranges: the ranges to read.
        min_tasks: minimum number of tasks, if there are that many offsets; the longest pieces are split.
        max_records: maximum number of offsets of one task.
        max_bytes: approximate maximum bytes of one task; at least one offset each.
        record_bytes: mean size of a record by queue.
    """
    whole = [each for each in ranges if each.count > 0]
    pieces = []
    for each in whole:
        wanted = 1
        if max_records is not None:
            wanted = max(wanted, -(-each.count // max_records))
        if max_bytes is not None:
            size = (record_bytes or {}).get(each.queue, DEFAULT_RECORD_BYTES)
            wanted = max(wanted, -(-each.count // max(1, int(max_bytes / size))))
        pieces.append(min(wanted, each.count))
    if min_tasks is not None:
        _add(whole, pieces, min(min_tasks, sum(each.count for each in whole)))
    return [part for each, count in zip(whole, pieces, strict=True) for part in _cut(each, count)]


def _add(ranges: Sequence[QueueRange], pieces: list[int], tasks: int) -> None:
    """Split the ranges with the longest pieces until there are *tasks*."""
    total = sum(each.count for each in ranges)
    if sum(pieces) < tasks:  # proportional shares first, so that few steps remain
        for number, each in enumerate(ranges):
            pieces[number] = max(pieces[number], each.count * (tasks - len(ranges)) // total)
    while sum(pieces) < tasks:
        longest = max(range(len(ranges)), key=lambda number: (ranges[number].count / pieces[number], -number))
        pieces[longest] += 1


def _cut(whole: QueueRange, count: int) -> list[QueueRange]:
    ends = [whole.first + whole.count * number // count for number in range(count + 1)]
    return [QueueRange(whole.queue, first, end) for first, end in pairwise(ends)]
