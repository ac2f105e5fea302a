"""Decides which messages the next micro-batch has, and divides them among tasks: a state machine without I/O.

    read so far        current queue                            start of the micro-batch       reported as
    ---------------------------------------------------------------------------------------------------
    up to 70           offsets 20 to 90                         70
    nothing            offsets 20 to 90 (a new queue)           20
    up to 70           offsets 80 to 90                         80                             EXPIRED 70 to 79
    up to 70           offsets 0 to 90, first one stored        0                              RECREATED
                       after everything that was read
    up to 70           empty, ends at 0                         0                              RECREATED
    up to 70           offsets 20 to 60, the same topic         60                             TRUNCATED 60 to 69
    up to 70           broker does not respond                  (waits)
    up to 70           no such queue                            (dropped)                      QUEUE_GONE

Limits: at most *max_offsets* in all, divided by backlog with something for every queue in turn. Fewer than
*min_offsets* wait until there are enough, or until *max_delay_ms* have passed since the last micro-batch. A query that
reads what is available now (`aim`) ends at the ends seen at its start, regardless of later writes, and does not wait
for more.

If there is nothing to do, the given offsets are returned unchanged: Spark then starts no micro-batch.

One range is one task unless a limit requires more: *max_records* and *max_bytes* of one task, at least *min_tasks* in
all. Pieces of a range differ in length by at most one offset. Bytes are those of stored records, by the mean size that
the caller determined for a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs

from gantrymq.plugin.model import MessageQueue
from gantrymq_spark.live.offsets import Loss, LossKind, Offsets, QueuePosition, QueueRange, QueueState, Snapshot

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


@attrs.frozen
class PlannedBatch:
    """The end of the next micro-batch, and its losses."""

    offsets: Offsets
    losses: tuple[Loss, ...] = ()


class Planner:
    """Plans the micro-batches of one run of one query."""

    def __init__(self, max_delay_ms: int) -> None:
        """*max_delay_ms*: how long fewer than the minimum of offsets may wait."""
        self._max_delay_ms = max_delay_ms
        self._target: Snapshot | None = None
        self._last_ms: int | None = None  # time of the last micro-batch, None before the first
        self._turn = 0

    def aim(self, target: Snapshot) -> None:
        """Read up to the ends in *target* and then stop."""
        self._target = target

    def step(
        self,
        read: Offsets,
        now: Snapshot,
        time_ms: int,
        *,
        max_offsets: int | None = None,
        min_offsets: int | None = None,
    ) -> PlannedBatch:
        """Plan one micro-batch.

        Args:
            read: the end of the last micro-batch.
            now: the current queues.
            time_ms: from any monotonic clock.
            max_offsets: maximum of the micro-batch; None for no limit.
            min_offsets: minimum to wait for; None for none.
        """
        losses: list[Loss] = []
        queues, kept = self._in_view(read, now, losses)
        begins: dict[MessageQueue, int] = {}
        for queue, there in sorted(queues.items()):
            begins[queue], loss = begin_of(queue, read.queues.get(queue), there)
            losses += [loss] if loss else []
        gone = [queue for queue in sorted(read.queues) if queue not in queues and queue not in kept]
        losses += [Loss(LossKind.QUEUE_GONE, queue, read.queues[queue].next) for queue in gone]

        backlogs = [queues[queue].end - begin for queue, begin in begins.items()]
        if self._waits(sum(backlogs), min_offsets, time_ms):
            return PlannedBatch(read, tuple(losses))
        shares = backlogs if max_offsets is None else divide_limit(backlogs, max_offsets, self._turn)
        moved = [q for q, begin in begins.items() if q in read.queues and begin != read.queues[q].next]
        if not (any(shares) or moved or gone):
            return PlannedBatch(read, tuple(losses))
        self._turn += sum(share > 0 for share in shares)
        reached = {queue: attrs.evolve(read.queues[queue], begin=None) for queue in kept if queue in read.queues}
        for (queue, begin), share in zip(begins.items(), shares, strict=True):
            before = read.queues.get(queue)
            jumps = before is None or before.next != begin
            stored_ms = max(queues[queue].stored_ms, before.stored_ms if before is not None and not jumps else 0)
            reached[queue] = QueuePosition(begin + share, stored_ms, begin if jumps else None)
        return PlannedBatch(Offsets(reached), tuple(losses))

    def _waits(self, backlog: int, min_offsets: int | None, time_ms: int) -> bool:
        """Return whether to wait for more offsets."""
        few = min_offsets is not None and self._target is None and backlog < min_offsets
        if few and self._last_ms is not None and time_ms - self._last_ms < self._max_delay_ms:
            return True
        self._last_ms = time_ms
        return False

    def _in_view(
        self, read: Offsets, now: Snapshot, losses: list[Loss]
    ) -> tuple[Mapping[MessageQueue, QueueState], set[MessageQueue]]:
        """Return the queues to plan with, and the queues to leave unchanged."""
        target = self._target
        if target is None:
            return now.queues, {queue for queue in read.queues if queue.broker_name in now.away}
        away = now.away | target.away
        unseen = now.queues.keys() - target.queues.keys()  # their broker did not respond to the first snapshot
        kept = {queue for queue in read.queues if queue.broker_name in away or queue in unseen}
        found: dict[MessageQueue, QueueState] = {}
        for queue, aimed in target.queues.items():
            there = now.queues.get(queue)
            if there is None or queue in kept:
                continue
            if there.end < aimed.end or was_recreated(QueuePosition(aimed.end, aimed.stored_ms), there):
                losses.append(Loss(LossKind.RECREATED, queue, aimed.first))
                kept.add(queue)
                continue
            first = max(aimed.first, there.first)
            found[queue] = attrs.evolve(
                aimed, first=first, end=max(aimed.end, first), first_stored_ms=there.first_stored_ms
            )
        return found, kept


def begin_of(queue: MessageQueue, before: QueuePosition | None, there: QueueState) -> tuple[int, Loss | None]:
    """Return where to continue in a queue that was read up to *before* (None for a new one), and what is lost."""
    if before is None:
        return there.first, None
    if was_recreated(before, there):
        return there.first, Loss(LossKind.RECREATED, queue, before.next)
    if there.end < before.next:
        return there.end, Loss(LossKind.TRUNCATED, queue, there.end, before.next)
    if there.first > before.next:
        return there.first, Loss(LossKind.EXPIRED, queue, before.next, there.first)
    return before.next, None


def was_recreated(before: QueuePosition, there: QueueState) -> bool:
    """Return whether this is a new queue of the same name: its older messages were stored after those read before."""
    if there.end == 0:
        return before.next > 0
    if there.first_stored_ms is None or there.first >= before.next:
        return False
    return there.first_stored_ms > before.stored_ms


def divide_limit(backlogs: Sequence[int], limit: int, turn: int = 0) -> list[int]:
    """Return how many offsets each queue gets.

    Args:
        backlogs: available offsets of each queue.
        limit: maximum for all queues together, 1 or more.
        turn: which queue is first if the limit does not reach all of them; the caller increments it.

    Returns:
        One number for each backlog; their sum is the limit, or the sum of the backlogs if that is less.
    """
    if sum(backlogs) <= limit:
        return list(backlogs)
    waiting = [number for number, backlog in enumerate(backlogs) if backlog]
    first = turn % len(waiting)
    order = waiting[first:] + waiting[:first]
    shares = [0] * len(backlogs)
    for number in order[:limit]:
        shares[number] = 1
    left = limit - sum(shares)
    rest = sum(backlogs) - len(waiting)
    if left > 0:
        for number in waiting:
            shares[number] += left * (backlogs[number] - 1) // rest
    for number in order:
        more = min(limit - sum(shares), backlogs[number] - shares[number])
        shares[number] += max(0, more) if left > 0 else 0
    return shares
