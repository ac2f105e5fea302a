"""Divides the rebuild of a store's queues and index into independent steps.

    ranges of the log  ->  part files  ->  shares of the queues, and single index files

A part file (`gantrymq_store_tools.part_file`) has everything that later steps need of its range, so the log is read
once. A queue depends on all parts and no other queue; an index file depends on its own keys and the last key of the
file before. So steps of one kind run in any order, on any machine that sees the folders, and can be repeated after a
crash.

    <target>/.rebuild/parts/<first>-<end>.part     results of ranges
    <target>/.rebuild/made/...                     output files until all are complete
    <target>/consumequeue, index, ...              final place
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from gantrymq.plugin.model import Queue
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_tools.index_files import file_named_ms
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.part_file import PartHead
from gantrymq_store_tools.record_entries import EntryRules

RANGE_BYTES = 64 * 1024 * 1024


@attrs.frozen
class RebuildPlan:
    """The inputs of every step: plain values that can be pickled."""

    layout: Layout
    rules: EntryRules
    index_layout: IndexLayout
    scratch: Path
    queues: bool = True  # whether queue files are written
    index: bool = True  # whether index files are written

    @property
    def parts(self) -> Path:
        """Folder of part files."""
        return self.scratch / "parts"

    @property
    def made(self) -> Path:
        """Folder of queue and index files until all are complete."""
        return self.scratch / "made"


@attrs.frozen
class RangeStep:
    """Read the records that start in ``[start, end)`` of the log."""

    start: int
    end: int

    def path(self, plan: RebuildPlan) -> Path:
        """Return the path of the part file."""
        return plan.parts / f"{file_name(self.start)}-{file_name(self.end)}.part"


@attrs.frozen
class QueueStep:
    """Write the files of some queues."""

    queues: frozenset[Queue]
    parts: tuple[Path, ...]  # of the whole log, in log order


@attrs.frozen
class IndexStep:
    """Write one index file."""

    number: int  # from 0
    parts: tuple[tuple[Path, int, int], ...]  # part file, first key and end of its keys
    follows: tuple[int, int] | None  # store time and log offset of the last key of the file before
    before_ms: int  # the time the previous file is named for
    utc_offset_ms: int  # of the local time in the file's name


def cut_ranges(log: Series, range_bytes: int = RANGE_BYTES) -> list[RangeStep]:
    """Return ranges of at most *range_bytes* that cover *log*; none crosses the start of a file.

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
    """Merge adjacent ranges whose parts do not fit together, so that they are read again as one range.

    Only damage, or bytes that imitate a record, at the start of a range causes this.

    Args:
        steps: in log order.
        heads: of the same parts.

    Returns:
        The new steps, and those of them that have to be processed again.
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
    """Divide all queues of the log or the store into at most *shares* steps of about equal size in bytes."""
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
    """Return one step for each index file.

    Args:
        keys_at: store time and log offset of the keys returned by `edge_keys`, in order.
        zone_ms: UTC offset for the name of each file.
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
    """Return first and end key number of each index file."""
    total, most = sum(head.keys for head in heads), plan.index_layout.entries - 1
    return [(first, min(first + most, total)) for first in range(0, total, most)]
