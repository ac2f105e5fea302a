"""Rebuilds queues and index of a store whose log is too large for one process.

    rebuild(files, root, target, utc_offset_ms, run=...)

*run* distributes steps: `in_this_process`, `over_spark` with a Spark session, or anything that maps a function over a
list. The result is byte for byte that of `gantrymq store rebuild-queues` and `rebuild-index`, and what the broker
wrote. A stopped rebuild continues: existing parts are not read again unless the log has changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.formats import BATCH_QUEUES, INDEX, QUEUES
from gantrymq.plugin.world import Files
from gantrymq_spark.jobs.rebuild_plan import (
    RANGE_BYTES,
    RangeStep,
    RebuildPlan,
    cut_ranges,
    file_keys,
    index_steps,
    merge_misfits,
    queue_steps,
)
from gantrymq_spark.jobs.rebuild_steps import edge_keys, read_range_step, remove_folder, write_index_file, write_queues
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_tools.check import log_findings, refuse_no_log
from gantrymq_store_tools.findings import Finding, ProgressListener, no_progress
from gantrymq_store_tools.layout import Layout, find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.part_file import PartHead
from gantrymq_store_tools.rebuild import in_order
from gantrymq_store_tools.rebuild_store import RebuildReport, changed_due_times, present_index_layout
from gantrymq_store_tools.store_rules import has_tag_keys, rules_of
from gantrymq_store_tools.target_files import same_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = TypeVar("S")
R = TypeVar("R")
_SCRATCH = ".rebuild"
_PLAN = "plan.sha256"


class StepRunner(Protocol):
    """Distributes steps: calls *work* with each of *steps*; results in any order."""

    def __call__(self, work: Callable[[S], R], steps: Sequence[S], /) -> Iterable[R]:
        """Raise what *work* raised."""


@attrs.define
class RebuildResult:
    """The reports of a rebuild; None for what was not requested."""

    queues: RebuildReport | None = None
    index: RebuildReport | None = None

    @property
    def damaged(self) -> bool:
        """Whether the log is damaged, so that the result is incomplete."""
        return any(report.damaged for report in (self.queues, self.index) if report is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the reports as a JSON document."""
        reports = {"queues": self.queues, "index": self.index}
        return {name: report.to_json() for name, report in reports.items() if report is not None}


def in_this_process(work: Callable[[S], R], steps: Sequence[S]) -> Iterable[R]:
    """Run the steps one after the other."""
    return map(work, steps)


def over_spark(session: SparkSession, work: Callable[[S], R], steps: Sequence[S]) -> Iterable[R]:
    """Run each step as a task of *session*; bind the session with `functools.partial`. Steps start in order."""
    if not steps:
        return []
    found: list[R] = session.sparkContext.parallelize(steps, len(steps)).map(work).collect()
    return found


def rebuild(
    files: Files,
    root: Path,
    target: Path,
    utc_offset_ms: Callable[[int], int],
    *,
    queues: bool = True,
    index: bool = True,
    run: StepRunner = in_this_process,
    shares: int = 8,
    range_bytes: int = RANGE_BYTES,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    index_layout: IndexLayout | None = None,
    tag_keys: bool | None = None,
    progress: ProgressListener = no_progress,
) -> RebuildResult:
    """Write queues and index of the store *root* to the folder *target*, which every worker must see.

    Args:
        files: of this process; with another `run` than `in_this_process`, steps use their own files.
        utc_offset_ms: how far local time is ahead of UTC at a wall time, for names of index files.
        shares: the number of steps among which the queues are divided.
        log_folders, delay_levels, index_layout, tag_keys: see `gantrymq_store_tools.rebuild_store`.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        StoreError: *target* already has the output folders.
        OSError: the disk is full or failed.
    """
    layout = find_layout(files, root, log_folders)
    folders = [*((QUEUES, BATCH_QUEUES) if queues else ()), *((INDEX,) if index else ())]
    for name in folders:
        if files.stat(target / name) is not None:
            raise StoreError(f"{target / name} already exists; move it away, or name another folder with --to")
    plan = _plan(files, layout, target / _SCRATCH, delay_levels, index_layout, tag_keys, queues, index)
    _prepare(files, plan)
    bound: dict[str, Any] = {"files": files} if run is in_this_process else {}
    progress.begin("log", layout.log.end - layout.log.start)
    heads = _ranges(files, plan, run, range_bytes, bound, progress)
    progress.end()
    reader = LogReader(files, layout.log)
    reader.unreadable = sorted({place for head in heads for place in head.unreadable})
    damages = [damage for part in in_order(head.part for head in heads) for damage in part.damages]
    records = sum(head.part.records for head in heads)
    refuse_no_log(reader, records, len(damages))
    findings = log_findings(layout, reader, damages)
    done = RebuildResult()
    if queues:
        done.queues = RebuildReport(layout.root, target, records, findings=list(findings))
        _queues(plan, heads, run, shares, bound, done.queues)
    if index:
        done.index = RebuildReport(layout.root, target, records, findings=list(findings))
        _index(files, plan, heads, run, utc_offset_ms, bound, done.index)
    for name in folders:
        if files.list(plan.made / name) or name == INDEX:
            files.make_dirs(plan.made / name)
            files.rename(plan.made / name, target / name)
    files.sync_dir(target)
    remove_folder(files, plan.scratch)
    _compare(files, layout, target, done)
    if done.queues is not None:
        done.queues.findings += changed_due_times(files, layout, target, delay_levels)
    return done


def _plan(
    files: Files,
    layout: Layout,
    scratch: Path,
    delay_levels: str | None,
    index_layout: IndexLayout | None,
    tag_keys: bool | None,
    queues: bool,
    index: bool,
) -> RebuildPlan:
    reader, open_files = LogReader(files, layout.log), OpenFiles(files)
    try:
        found = index_layout or present_index_layout(layout, open_files)
        if tag_keys is None:
            tag_keys = index and bool(layout.index) and has_tag_keys(layout, found, reader, open_files)
        rules = attrs.evolve(rules_of(files, layout, delay_levels), tag_keys=tag_keys)
    finally:
        reader.close()
        open_files.close()
    return RebuildPlan(layout, rules, found, scratch, queues, index)


def _prepare(files: Files, plan: RebuildPlan) -> None:
    """Keep the parts of an earlier run if log and plan are unchanged, otherwise start over."""
    stats = [(file.path, files.stat(file.path)) for file in plan.layout.log.files]
    rules = attrs.asdict(plan.rules) | {"batch_topics": sorted(plan.rules.batch_topics)}
    content = hashlib.sha256(repr((stats, rules, plan.queues, plan.index)).encode()).hexdigest().encode()
    mark = plan.scratch / _PLAN
    if files.stat(mark) is None or files.read(mark) != content:
        remove_folder(files, plan.scratch)
        files.make_dirs(plan.parts)
        files.replace(mark, content)
    remove_folder(files, plan.made)
    files.make_dirs(plan.made)


def _ranges(
    files: Files,
    plan: RebuildPlan,
    run: StepRunner,
    range_bytes: int,
    bound: dict[str, Any],
    progress: ProgressListener,
) -> list[PartHead]:
    steps = again = cut_ranges(plan.layout.log, range_bytes)
    heads: dict[Path, PartHead] = {}
    while again:
        for head in run(partial(read_range_step, plan, **bound), again):
            heads[head.path] = head
            progress.advance(head.part.end - head.part.start)
        old: list[RangeStep] = steps
        steps, again = merge_misfits(steps, [heads[step.path(plan)] for step in steps])
        for step in set(old) - set(steps):
            files.remove(step.path(plan))
    return [heads[step.path(plan)] for step in steps]


def _queues(
    plan: RebuildPlan, heads: list[PartHead], run: StepRunner, shares: int, bound: dict[str, Any], report: RebuildReport
) -> None:
    moved: list[Any] = []
    refused: dict[Any, str] = {}
    for done in run(partial(write_queues, plan, **bound), queue_steps(plan, heads, shares)):
        report.files += done.files
        report.entries += done.entries
        report.lost += done.lost
        moved += done.moved
        refused |= done.refused
    for queue, log_offset, stated, right in sorted(moved, key=lambda each: each[1]):
        text = f"the record at log offset {log_offset} states queue offset {stated}; its entry is at {right}"
        report.findings.append(Finding("queue.offset", f"consumequeue/{queue.topic}/{queue.queue_id}", text, right))
    for _, problem in sorted(refused.items()):
        text = f"records say they are of {problem}; they have no entry"
        report.findings.append(Finding("queue.unusable", "consumequeue", text))


def _index(
    files: Files,
    plan: RebuildPlan,
    heads: list[PartHead],
    run: StepRunner,
    utc_offset_ms: Callable[[int], int],
    bound: dict[str, Any],
    report: RebuildReport,
) -> None:
    edges = edge_keys(files, heads, file_keys(plan, heads))
    named, zones = 0, []
    for first_ms, _ in edges[::2]:
        named = max(first_ms, named + 1)
        zones.append(utc_offset_ms(named))
    for done in run(partial(write_index_file, plan, **bound), index_steps(plan, heads, edges, zones)):
        report.files += 1
        report.entries += done.entries


def _compare(files: Files, layout: Layout, target: Path, done: RebuildResult) -> None:
    if done.queues is not None:
        done.queues.same_files = sum(
            same_bytes(files, file.path, target / layout.name(file.path))
            for table in (layout.queues, layout.batch)
            for series in table.values()
            for file in series.files
        )
    if done.index is not None:
        pairs = zip(layout.index, files.list(target / INDEX), strict=False)
        done.index.same_files = sum(same_bytes(files, file.path, target / INDEX / name) for file, name in pairs)
