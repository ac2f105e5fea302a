"""Rebuilds the queues or the index of a store from its log, into a sibling folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from gantrymq.plugin.formats import BATCH_QUEUES, INDEX, QUEUES
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import FileReader, Files
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address
from gantrymq_store_tools.check import log_findings, ranges
from gantrymq_store_tools.findings import DUE_TIME, Finding, ProgressListener, counted, no_progress
from gantrymq_store_tools.index_files import IndexWriter, find_index_layout, usual_layout
from gantrymq_store_tools.layout import Layout, find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_write import QueueWriter
from gantrymq_store_tools.store_rules import has_tag_keys, rules_of
from gantrymq_store_tools.target_files import new_folder, same_bytes


@attrs.define
class RebuildReport:
    """The result of a rebuild."""

    root: Path
    target: Path
    records: int = 0
    files: int = 0
    entries: int = 0
    same_files: int = 0  # files that are identical in the store
    lost: int = 0  # queue offsets whose record is not in the log
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def damaged(self) -> bool:
        """Whether the log is damaged, so that the result is incomplete."""
        return any(finding.damage for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        members = {name: value for name, value in attrs.asdict(self, recurse=False).items() if name != "findings"}
        return {
            **members,
            "root": str(self.root),
            "target": str(self.target),
            "damaged": self.damaged,
            "findings": [finding.to_json() for finding in self.findings],
        }


def sibling_folder(root: Path, what: str) -> Path:
    """Return the default target folder, next to *root*: ``store`` -> ``store.rebuilt``."""
    whole = root.absolute()
    return whole.with_name(f"{whole.name}.{what}")


def rebuild_queues(
    files: Files,
    root: Path,
    target: Path,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    progress: ProgressListener = no_progress,
) -> RebuildReport:
    """Write ``consumequeue`` and ``batchconsumequeue`` of the store *root* into the folder *target*.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        StoreError: *target* already has these folders.
        OSError: the disk is full or failed.
    """
    layout = find_layout(files, root, log_folders)
    for name in (QUEUES, BATCH_QUEUES):
        new_folder(files, target / name)
    report = RebuildReport(root, target)
    reader, open_files = LogReader(files, layout.log), OpenFiles(files)
    writer = QueueWriter(files, layout, target, open_files)
    damages: list[LogDamage] = []
    progress.begin("log", layout.log.end - layout.log.start)
    try:
        for part in ranges(reader, rules_of(files, layout, delay_levels), index=False, progress=progress):
            writer.add(part)
            damages += part.damages
            report.records += part.records
        report.files = writer.finish()
    finally:
        reader.close()
        open_files.close()
    progress.end()
    for name in (QUEUES, BATCH_QUEUES):
        if not files.list(target / name):
            files.remove_dir(target / name)
    report.entries, report.lost = writer.entries + writer.batch_entries, writer.lost
    report.same_files = sum(
        same_bytes(files, file.path, target / layout.name(file.path))
        for table in (layout.queues, layout.batch)
        for series in table.values()
        for file in series.files
    )
    report.findings = log_findings(layout, reader, damages) + changed_due_times(files, layout, target, delay_levels)
    for queue, log_offset, stated, right in writer.moved:
        text = f"the record at log offset {log_offset} states queue offset {stated}; its entry is at {right}"
        report.findings.append(Finding("queue.offset", f"consumequeue/{queue.topic}/{queue.queue_id}", text, right))
    for problem in writer.refused.values():
        text = f"records say they are of {problem}; they have no entry"
        report.findings.append(Finding("queue.unusable", "consumequeue", text))
    return report


def changed_due_times(files: Files, layout: Layout, target: Path, delay_levels: str | None) -> list[Finding]:
    """Return a finding for each queue of delayed messages whose entries in *target* have other due times.

    It is damage, because the result must not be used, unless the caller named *delay_levels*.
    """
    found = []
    for queue, series in sorted(layout.queues.items()):
        changed, first = 0, -1
        for file in series.files if queue.topic == SCHEDULE_TOPIC else ():
            made = target / layout.name(file.path)
            if files.stat(made) is None or same_bytes(files, file.path, made):
                continue
            before, after = _entries(files, file.path), _entries(files, made)
            for number, (old, new) in enumerate(zip(before, after, strict=False)):
                if old[:2] == new[:2] and old[2] != new[2] and not is_ext_address(old[2]):
                    changed += 1
                    first = first if first >= 0 else file.start // ENTRY_BYTES + number
        if changed:
            text = (
                f"{counted(changed, 'delayed message')} of level {queue.queue_id + 1} would be due at other times "
                "than in the store: name the messageDelayLevel of its broker with --delay-levels"
            )
            path = f"{QUEUES}/{queue.topic}/{queue.queue_id}"
            found.append(Finding(DUE_TIME, path, text, first, changed, damage=delay_levels is None))
    return found


def _entries(files: FileReader, path: Path) -> Iterator[tuple[Any, ...]]:
    """Return the entries of a queue file."""
    data = files.read(path)
    return ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES])


def rebuild_index(
    files: Files,
    root: Path,
    target: Path,
    utc_offset_ms: Callable[[int], int],
    *,
    log_folders: Sequence[Path] = (),
    index_layout: IndexLayout | None = None,
    tag_keys: bool | None = None,
    progress: ProgressListener = no_progress,
) -> RebuildReport:
    """Write ``index`` of the store *root* into the folder *target*.

    Args:
        utc_offset_ms: how far local time is ahead of UTC at a wall time, for the files' names.
        index_layout: slots and entries of a file; by default detected from the existing files, else RocketMQ's default.
        tag_keys: whether tags get entries, as in 5.5.0; None does as the existing index does.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        StoreError: *target* already has an index.
        OSError: the disk is full or failed.
    """
    layout = find_layout(files, root, log_folders)
    new_folder(files, target / INDEX)
    report = RebuildReport(root, target)
    reader, open_files = LogReader(files, layout.log), OpenFiles(files)
    damages: list[LogDamage] = []
    try:
        found = index_layout or present_index_layout(layout, open_files)
        rules = rules_of(files, layout)
        if tag_keys is None:
            tag_keys = bool(layout.index) and has_tag_keys(layout, found, reader, open_files)
        rules = attrs.evolve(rules, tag_keys=tag_keys)
        writer = IndexWriter(files, target / INDEX, found, utc_offset_ms)
        progress.begin("log", layout.log.end - layout.log.start)
        for part in ranges(reader, rules, queues=False, progress=progress):
            writer.add(part)
            damages += part.damages
            report.records += part.records
        report.files = writer.finish()
        progress.end()
    finally:
        reader.close()
        open_files.close()
    report.entries = writer.entries
    for number, name in enumerate(writer.names):
        if number < len(layout.index):
            report.same_files += same_bytes(files, layout.index[number].path, target / INDEX / name)
    report.findings = log_findings(layout, reader, damages)
    return report


def present_index_layout(layout: Layout, open_files: OpenFiles) -> IndexLayout:
    """Return the layout of the existing index files, else RocketMQ's default."""
    if layout.index:
        found = find_index_layout(layout.index, open_files) or usual_layout(layout.index[0].size)
        if found is not None:
            return found
    return IndexLayout()
