"""How a store's queues and index are made anew in steps that know nothing of each other.

    ranges of the log  ->  part files  ->  shares of the queues, and single index files

A part file (`gantrymq_store_tools.part_file`) holds everything that later steps need of its range, so the log is
read once. A queue depends on all parts and no other queue; an index file on its own keys and the last key of the file
before. So steps of one kind run in any order, on any machine that sees the folders, and again after a crash.

    <target>/.rebuild/parts/<first>-<end>.part     what ranges said
    <target>/.rebuild/made/...                     files that are being made
    <target>/consumequeue, index, ...              moved there when all of them are made
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from gantrymq.model.queue import Queue
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_tools.index_write import file_named_ms
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.part_file import PartHead
from gantrymq_store_tools.record_entries import EntryRules

__all__ = [
    "RANGE_BYTES",
    "IndexStep",
    "QueueStep",
    "RangeStep",
    "RebuildPlan",
    "cut_ranges",
    "index_steps",
    "merge_misfits",
    "queue_steps",
]

RANGE_BYTES = 64 * 1024 * 1024


@attrs.frozen
class RebuildPlan:
    """What every step is told. Plain values, which can be pickled."""

    layout: Layout
    rules: EntryRules
    index_layout: IndexLayout
    scratch: Path
    queues: bool = True  # whether queue files are made
    index: bool = True  # whether index files are made

    @property
    def parts(self) -> Path:
        """Where part files go."""
        return self.scratch / "parts"

    @property
    def made(self) -> Path:
        """Where queue and index files go until all are made."""
        return self.scratch / "made"


@attrs.frozen
class RangeStep:
    """Read the records that start in ``[start, end)`` of the log."""

    start: int
    end: int

    def path(self, plan: RebuildPlan) -> Path:
        """The part's file."""
        return plan.parts / f"{file_name(self.start)}-{file_name(self.end)}.part"


@attrs.frozen
class QueueStep:
    """Write the files of some queues."""

    queues: frozenset[Queue]
    parts: tuple[Path, ...]  # of the whole log, in its order


@attrs.frozen
class IndexStep:
    """Write one index file."""

    number: int  # from 0
    parts: tuple[tuple[Path, int, int], ...]  # part file, first key and end of its keys
    follows: tuple[int, int] | None  # store time and log offset of the last key of the file before
    before_ms: int  # what the file before is named for
    utc_offset_ms: int  # where the file's name is made


def cut_ranges(log: Series, range_bytes: int = RANGE_BYTES) -> list[RangeStep]:
    """Ranges of *range_bytes* at most that cover *log*; none goes over the start of a file.

    Raises:
        ValueError: *range_bytes* is not positive.
    """
    if range_bytes <= 0:
        raise ValueError(f"ranges of {range_bytes} bytes; at least 1 is needed")
    steps: list[RangeStep] = []
    for number, file in enumerate(log.files):
        end = log.files[number + 1].start if number + 1 < len(log.files) else log.end
        cuts = [*range(file.start, min(file.start + log.file_bytes, end), range_bytes), end]
        steps += [RangeStep(*bounds) for bounds in pairwise(cuts)]
    return steps


def merge_misfits(steps: Sequence[RangeStep], heads: Sequence[PartHead]) -> tuple[list[RangeStep], list[RangeStep]]:
    """Where a part does not begin at the end of the one before, both are read again as one range.

    Only damage, or bytes made to look like a record, at the beginning of a range makes that.

    Args:
        steps: in the order of the log.
        heads: of the same parts.

    Returns:
        All steps as they are now, and those of them that have to be worked on.
    """
    settled: list[RangeStep] = []
    again: list[RangeStep] = []
    end = -1
    for step, head in zip(steps, heads, strict=True):
        if settled and head.part.start != end:
            merged = RangeStep(settled.pop().start, step.end)
            if again and again[-1].start == merged.start:
                again.pop()
            settled.append(merged)
            again.append(merged)
        else:
            settled.append(step)
        end = head.part.end
    return settled, again


def queue_steps(plan: RebuildPlan, heads: Sequence[PartHead], shares: int) -> list[QueueStep]:
    """All queues that the log or the store has, in at most *shares* shares of about as many bytes."""
    weights: dict[Queue, int] = dict.fromkeys((*plan.layout.queues, *plan.layout.batch), 0)
    for head in heads:
        for queue, size in head.entry_bytes.items():
            weights[queue] = weights.get(queue, 0) + size
    groups: list[list[Queue]] = [[] for _ in range(max(1, min(shares, len(weights))))]
    loads = [0] * len(groups)
    for queue in sorted(weights, key=lambda queue: (-weights[queue], queue)):
        lightest = loads.index(min(loads))
        groups[lightest].append(queue)
        loads[lightest] += weights[queue] + 1
    paths = tuple(head.path for head in heads)
    return [QueueStep(frozenset(group), paths) for group in groups if group]


def index_steps(
    plan: RebuildPlan, heads: Sequence[PartHead], keys_at: Iterable[tuple[int, int]], zone_ms: Iterable[int]
) -> list[IndexStep]:
    """One step for each index file.

    Args:
        keys_at: store time and log offset of the keys of the numbers that `edge_keys` says, in its order.
        zone_ms: how far local time is ahead of UTC where each file's name is made.
    """
    steps: list[IndexStep] = []
    edges, zones = iter(keys_at), iter(zone_ms)
    follows: tuple[int, int] | None = None
    before_ms = 0
    for number, (first, end) in enumerate(file_keys(plan, heads)):
        pieces, at = [], 0
        for head in heads:
            low, high = max(first - at, 0), min(end - at, head.keys)
            if low < high:
                pieces.append((head.path, low, high))
            at += head.keys
        first_ms, _ = next(edges)
        steps.append(IndexStep(number, tuple(pieces), follows, before_ms, next(zones)))
        before_ms = file_named_ms(first_ms, before_ms)
        follows = next(edges)
    return steps


def file_keys(plan: RebuildPlan, heads: Sequence[PartHead]) -> list[tuple[int, int]]:
    """Numbers of the first key and behind the last key of each index file."""
    total, most = sum(head.keys for head in heads), plan.index_layout.entries - 1
    return [(first, min(first + most, total)) for first in range(0, total, most)]
