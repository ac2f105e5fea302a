"""Checks of queue offsets and their order. Messages are reduced to runs where they are read, and runs are few.

    runs = queue_runs(batch)                         # any batch of messages, in any order, of any queues
    findings = queue_findings(all_runs, damages)     # runs of all batches, in any order

A run is a sequence of one queue's messages with consecutive queue offsets, in log order, with ascending store times. A
sound queue of a million messages has as many runs as there were batches. The transitions between runs of a queue, in
log order, are the faults:

    0 1 2 | 5 6         3 and 4 are missing, possibly explained by damage of the log between 2 and 5
    0 1 | 3 | 2 | 4     2 comes after 3
    0 1 2 | 2 3         2 is duplicated
    0 1 2 | 0 1         the topic was deleted and recreated

Required columns: `RUN_COLUMNS`. Records without a queue entry (prepared, rolled back) are excluded. An inner batch
counts as many offsets as it holds messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gantrymq.plugin.properties import INNER_BASE, INNER_NUM
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_spark.jobs.audit_findings import AuditFinding
from gantrymq_spark.log_scan import Damage
from gantrymq_store_tools.findings import counted

COST = "log.damaged.cost"  # not a check: what one queue lost by the damage at that log offset
RUN_ORDER = ("brokerName", "topic", "queueId", "firstLog", "firstOffset")
COSTS_SHOWN = 10  # maximum for one damage

RUN_COLUMNS = (
    "brokerName",
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "storeSize",
    "sysFlag",
    "storeTimestamp",
    "properties",
)
_NO_TIME = -(1 << 62)
RUN_SCHEMA = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("firstOffset", pa.int64()),  # queue offsets
        ("endOffset", pa.int64()),  # exclusive
        ("firstLog", pa.int64()),  # log offset, bytes: start of the first record
        ("lastLog", pa.int64()),  # start of the last record
        ("endLog", pa.int64()),  # end of the last record
        ("firstTime", pa.int64()),  # us, store times; NO_TIME for none
        ("lastTime", pa.int64()),
    ]
)


def queue_runs(batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return the runs of the messages of *batch*, in `RUN_SCHEMA`."""
    kinds = batch["sysFlag"].to_numpy(zero_copy_only=False) & TRANSACTION_MASK
    counted = (kinds == 0) | (kinds == TRANSACTION_COMMIT)
    batch = pa.table({name: batch[name] for name in RUN_COLUMNS}).filter(pa.array(counted)).combine_chunks()
    if not batch.num_rows:
        return RUN_SCHEMA.empty_table()
    brokers, topics = (pc.dictionary_encode(pc.fill_null(batch[name], "")) for name in ("brokerName", "topic"))
    broker_codes, topic_codes = (_codes(column) for column in (brokers, topics))
    queue_ids, logs = _numbers(batch["queueId"]), _numbers(batch["commitLogOffset"])
    sizes, times = _numbers(batch["storeSize"]), _times(batch["storeTimestamp"])
    offsets, counts = _offsets(batch)
    order = np.lexsort((logs, queue_ids, topic_codes, broker_codes))
    codes = [column[order] for column in (broker_codes, topic_codes, queue_ids)]
    offsets, counts, logs, sizes, times = (column[order] for column in (offsets, counts, logs, sizes, times))
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = offsets[1:] != offsets[:-1] + counts[:-1]
    begins[1:] |= (times[1:] < times[:-1]) & (times[1:] != _NO_TIME)
    for code in codes:
        begins[1:] |= code[1:] != code[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    return pa.table(
        [
            batch["brokerName"].take(pa.array(order[first])),
            batch["topic"].take(pa.array(order[first])),
            *(codes[2][first], offsets[first], offsets[last] + counts[last]),
            *(logs[first], logs[last], logs[last] + sizes[last], times[first], times[last]),
        ],
        names=RUN_SCHEMA.names,
    ).cast(RUN_SCHEMA)


def queue_findings(runs: pa.Table | Iterable[pa.Table], damages: Sequence[Damage] = ()) -> list[AuditFinding]:
    """Return the faults between the runs of each queue, and every damage of the log with the queue offsets it cost.

    Args:
        runs: of one store, or of any number of brokers if there are no *damages*.
        damages: of that store's log.
    """
    tables = [runs] if isinstance(runs, pa.Table) else list(runs)
    table = pa.concat_tables(tables or [RUN_SCHEMA.empty_table()])
    filled = table.set_column(0, "brokerName", pc.fill_null(table["brokerName"], ""))
    found: list[AuditFinding] = []
    costs: dict[int, DamageCost] = defaultdict(DamageCost)
    for each in walk_runs([filled.sort_by([(name, "ascending") for name in RUN_ORDER])], damages):
        if each.check == COST:
            cost = costs[each.log_offset]
            costs[each.log_offset] = DamageCost([*cost.texts, each.text], cost.ranges + 1, cost.offsets + each.count)
        else:
            found.append(each)
    return found + [damage_finding(damage, costs[damage.log_offset]) for damage in damages]


def walk_runs(runs: Iterable[pa.Table], damages: Sequence[Damage] = ()) -> Iterator[AuditFinding]:
    """Yield the faults between runs, and a `COST` for each queue and damage that explains missing offsets.

    Only the open holes of the current queue are held.

    Args:
        runs: in `RUN_ORDER`; all runs of a queue, of any number of queues.
        damages: of the one log of the runs.
    """
    known = sorted(damages, key=lambda damage: damage.log_offset)
    rows = (_Run(**row) for table in runs for row in table.to_pylist())
    for _, each in groupby(rows, key=lambda run: run.queue):
        queue = _QueueRuns(each)
        yield from queue.walk()
        for hole in queue.holes:
            causes = hole.explained_by(known)
            count = hole.end - hole.first
            for damage in causes:
                yield queue.finding(COST, f"{hole.text} of {queue.name}", hole.first, damage.log_offset, count)
            if not causes:
                text = f"{queue.name}: no record has queue offset {hole.text}"
                yield queue.finding("queue.gap", text, hole.first, hole.after_log, count)


@attrs.frozen
class DamageCost:
    """The queue offsets that one damage of the log cost."""

    texts: Sequence[str] = ()  # of some of the ranges
    ranges: int = 0
    offsets: int = 0


def damage_finding(damage: Damage, cost: DamageCost) -> AuditFinding:
    """Return the finding for one damage."""
    more = f", and {cost.ranges - COSTS_SHOWN} more" if cost.ranges > COSTS_SHOWN else ""
    offsets = "queue offset" if cost.offsets == 1 else "queue offsets"
    lost = f"; it cost {offsets} {', '.join(cost.texts[:COSTS_SHOWN])}{more}" if cost.texts else ""
    text = (
        f"{counted(damage.size, 'byte')} at log offset {damage.log_offset} hold no sound record: {damage.problem}{lost}"
    )
    return AuditFinding("log.damaged", text, log_offset=damage.log_offset, count=cost.offsets, fault=damage.damage)


@attrs.frozen
class _Run:
    """A row of `RUN_SCHEMA`."""

    brokerName: str  # noqa: N815
    topic: str
    queueId: int  # noqa: N815
    firstOffset: int  # noqa: N815
    endOffset: int  # noqa: N815
    firstLog: int  # noqa: N815
    lastLog: int  # noqa: N815
    endLog: int  # noqa: N815
    firstTime: int  # noqa: N815
    lastTime: int  # noqa: N815

    @property
    def queue(self) -> tuple[str, str, int]:
        """Key of the run's queue."""
        return self.brokerName or "", self.topic, self.queueId


@attrs.frozen
class _Hole:
    """Offsets ``[first, end)`` without a record, and the range of the log where they would be."""

    first: int
    end: int
    after_log: int
    before_log: int

    @property
    def text(self) -> str:
        return str(self.first) if self.end == self.first + 1 else f"{self.first} to {self.end - 1}"

    def explained_by(self, damages: Sequence[Damage]) -> list[Damage]:
        """Return the *damages* in that range; they must be in log order and disjoint."""
        end = bisect_left(damages, self.before_log, key=lambda damage: damage.log_offset)
        first = bisect_left(damages, self.after_log + 1, hi=end, key=lambda damage: damage.log_offset + damage.size)
        return list(damages[first:end])


class _QueueRuns:
    """The runs of one queue, in log order; read once."""

    def __init__(self, runs: Iterator[_Run]) -> None:
        self._runs = runs
        self._first = next(runs)
        self.name = f"queue {self._first.topic}/{self._first.queueId}"
        self.holes: list[_Hole] = []  # final
        self._open: list[_Hole] = []  # a later record may still fill them
        self._found: list[AuditFinding] = []

    def finding(self, check: str, text: str, offset: int, log: int, count: int = 1, fault: bool = True) -> AuditFinding:
        run = self._first
        return AuditFinding(check, text, run.brokerName or "", run.topic, run.queueId, offset, log, count, fault)

    def walk(self) -> Iterator[AuditFinding]:
        """Yield faults of order, times and repetition; `holes` are complete at the end."""
        before, end = self._first, self._first.endOffset
        for run, after in pairwise(chain(self._runs, [None])):
            if run is None:
                break
            if run.firstLog < before.lastLog and run.firstOffset >= end:
                text = f"{self.name}: the record of queue offset {run.firstOffset} is before that of {end - 1}"
                self._add("queue.order", text, run)
            if _NO_TIME not in (run.firstTime, before.lastTime) and run.firstTime < before.lastTime:
                milliseconds = (before.lastTime - run.firstTime) // 1000
                text = (
                    f"{self.name}: queue offset {run.firstOffset} was stored {milliseconds} ms before the previous one"
                )
                self._add("queue.time", text, run)
            end = self._place(run, before, end, -1 if after is None else after.firstOffset)
            before = run
            yield from self._found
            self._found.clear()
        self.holes += self._open

    def _place(self, run: _Run, before: _Run, end: int, following: int) -> int:
        if run.firstOffset >= end:
            if run.firstOffset > end:
                self._open.append(_Hole(end, run.firstOffset, before.endLog, run.firstLog))
            return run.endOffset
        filled = self._fill(run)
        if filled:
            text = f"{self.name}: the record of queue offset {run.firstOffset} is after that of {end - 1}"
            self._add("queue.order", text, run, filled)
            if run.endOffset - run.firstOffset == filled:
                return end
        elif run.firstOffset == 0 and following != end:
            text = f"{self.name}: offsets start at 0 again after {end - 1}: the topic was recreated"
            self._add("queue.restart", text, run, fault=False)
            self.holes += self._open
            self._open = []
            return run.endOffset
        twice = min(run.endOffset, end) - run.firstOffset - filled
        text = f"{self.name}: {twice} queue offsets from {run.firstOffset} on are duplicated"
        self._add("queue.duplicate", text, run, twice)
        return max(end, run.endOffset)

    def _fill(self, run: _Run) -> int:
        """Remove the offsets of *run* from the open holes; return their number."""
        filled, left = 0, []
        for hole in self._open:
            low, high = max(hole.first, run.firstOffset), min(hole.end, run.endOffset)
            if low >= high:
                left.append(hole)
                continue
            filled += high - low
            if hole.first < low:
                left.append(attrs.evolve(hole, end=low))
            if high < hole.end:
                left.append(attrs.evolve(hole, first=high))
        self._open = left
        return filled

    def _add(self, check: str, text: str, run: _Run, count: int = 1, fault: bool = True) -> None:
        self._found.append(self.finding(check, text, run.firstOffset, run.firstLog, count, fault))


def _offsets(batch: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the queue offset of each record's first message, and the number of its messages."""
    offsets, counts = _numbers(batch["queueOffset"]).copy(), np.ones(batch.num_rows, dtype=np.int64)
    for row in np.flatnonzero(_numbers(batch["sysFlag"]) & INNER_BATCH):
        properties = dict(batch["properties"][int(row)].as_py() or ())
        offsets[row] = int(properties.get(INNER_BASE, offsets[row]))
        counts[row] = int(properties.get(INNER_NUM, 1))
    return offsets, counts


def _numbers(column: pa.ChunkedArray) -> Any:
    return pc.fill_null(column, 0).to_numpy().astype(np.int64)


def _times(column: pa.ChunkedArray) -> Any:
    return pc.fill_null(column.cast(pa.int64()), _NO_TIME).to_numpy()


def _codes(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().indices.to_numpy(zero_copy_only=False).astype(np.int64)
