"""The steps of a rebuild, each a function of the plan and one step; see `rebuild_plan`."""

from __future__ import annotations

from pathlib import Path

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.formats import INDEX
from gantrymq.plugin.model import Queue
from gantrymq.plugin.real_world import RealFiles
from gantrymq.plugin.world import Files
from gantrymq_spark.jobs.rebuild_plan import IndexStep, QueueStep, RangeStep, RebuildPlan
from gantrymq_store_files.index import IndexHeader
from gantrymq_store_tools.index_files import IndexWriter
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.part_file import PartHead, read_head, read_part, write_part
from gantrymq_store_tools.queue_write import QueueWriter
from gantrymq_store_tools.rebuild import rebuild_range

_READ_KEYS = 4_000_000  # at once


@attrs.define
class QueueStepResult:
    """The result of one step of queues."""

    files: int
    entries: int
    lost: int  # queue offsets without a record
    moved: list[tuple[Queue, int, int, int]]  # queue, log offset, stated and corrected queue offset
    refused: dict[Queue, str]  # queues whose name cannot be a folder, and why


@attrs.define
class IndexStepResult:
    """The result of one index file."""

    number: int
    name: str
    entries: int


def read_range_step(plan: RebuildPlan, step: RangeStep, files: Files | None = None) -> PartHead:
    """Read one range and write its part file; an existing part file is reused.

    Raises:
        OSError: the log cannot be opened, or the part cannot be written; unreadable bytes are recorded in the part.
    """
    files = RealFiles() if files is None else files
    path = step.path(plan)
    if files.stat(path) is not None:
        try:
            return read_head(files, path)
        except FormatError:
            files.remove(path)
    reader = LogReader(files, plan.layout.log)
    try:
        part = rebuild_range(reader, step.start, step.end, plan.rules, queues=plan.queues, index=plan.index)
    finally:
        reader.close()
    write_part(files, path, part, reader.unreadable)
    return read_head(files, path)


def write_queues(plan: RebuildPlan, step: QueueStep, files: Files | None = None) -> QueueStepResult:
    """Write the files of the queues of *step*. Raises OSError."""
    files = RealFiles() if files is None else files
    open_files = OpenFiles(files)
    writer = QueueWriter(files, plan.layout, plan.made, open_files, step.queues)
    try:
        for path in step.parts:
            writer.add(read_part(files, read_head(files, path), step.queues))
        made = writer.finish()
    finally:
        open_files.close()
    return QueueStepResult(made, writer.entries + writer.batch_entries, writer.lost, writer.moved, writer.refused)


def write_index_file(plan: RebuildPlan, step: IndexStep, files: Files | None = None) -> IndexStepResult:
    """Write the index file of *step*. Raises OSError."""
    files = RealFiles() if files is None else files
    follows = None
    if step.follows is not None:
        time_ms, log_offset = step.follows
        follows = IndexHeader(end_timestamp=time_ms, end_offset=log_offset)
    writer = IndexWriter(
        files,
        plan.made / INDEX,
        plan.index_layout,
        lambda time_ms: step.utc_offset_ms,
        follows=follows,
        named_ms=step.before_ms,
    )
    for path, first, end in step.parts:
        head = read_head(files, path)
        for low in range(first, end, _READ_KEYS):
            writer.add(read_part(files, head, keys=(low, min(low + _READ_KEYS, end))))
    writer.finish()
    (name,) = writer.names
    return IndexStepResult(step.number, name, writer.entries)


def edge_keys(files: Files, heads: list[PartHead], bounds: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return store time and log offset of the first and of the last key of each index file."""
    wanted = [number for first, end in bounds for number in (first, end - 1)]
    found, at, which = [], 0, 0
    for number in wanted:
        while number >= at + heads[which].keys:
            at += heads[which].keys
            which += 1
        index = read_part(files, heads[which], keys=(number - at, number - at + 1)).index
        found.append((index.timestamps[0], index.log_offsets[0]))
    return found


def remove_folder(files: Files, folder: Path) -> None:
    """Remove *folder* and its content; does nothing if it does not exist."""
    for name in files.list(folder):
        stat = files.stat(folder / name)
        if stat is not None and stat.is_dir:
            remove_folder(files, folder / name)
        else:
            files.remove(folder / name)
    files.remove_dir(folder)
