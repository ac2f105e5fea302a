"""Makes a repaired copy of a store in a sibling folder; the store itself is not changed.

1. The log is copied, and damage is overwritten as described in `log_repair`. Log offsets do not change.
2. Queues and index are rebuilt from the records; the checkpoint states that all of it is durable.
3. Config files are copied. One that cannot be read is replaced by its backup; topics.json without a backup is rebuilt
from the queues. Replaced files are kept.
4. Everything else is copied except `abort` and `lock`: a broker starts on the copy as after a clean stop.

Damaged bytes and files are kept below ``recovered/<time in ms>/`` of the copy, as the broker's recovery does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.config_files import RESERVE, TOPICS, TopicsFile, backup_of, pretty
from gantrymq.plugin.formats import BATCH_QUEUES, COMMIT_LOG, EXT_QUEUES, INDEX, QUEUES
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq.plugin.world import Files
from gantrymq_store_files.checkpoint import encode_checkpoint
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.check import CheckReport, check_store, ranges
from gantrymq_store_tools.config_check import NO_JSON, json_problem, read_checkpoint
from gantrymq_store_tools.findings import ProgressListener, counted, no_progress
from gantrymq_store_tools.index_files import IndexWriter
from gantrymq_store_tools.layout import Layout, find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.log_repair import copy_log, repair_log
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_write import QueueWriter
from gantrymq_store_tools.rebuild_store import present_index_layout
from gantrymq_store_tools.store_rules import has_tag_keys, rules_of
from gantrymq_store_tools.target_files import copy_file, new_folder, refuse_store_folder

_QUEUE_OFFSET_AT = 20  # position in a record, see `formats.record`
_REWRITTEN = frozenset({QUEUES, BATCH_QUEUES, INDEX, "checkpoint", "config", "abort", "lock"})


@attrs.define
class RepairReport:
    """Findings before the repair, what was done, and findings in the copy."""

    root: Path
    target: Path | None  # None: nothing to repair, no copy was made
    before: CheckReport
    done: list[str] = attrs.field(factory=list)
    after: CheckReport | None = None

    @property
    def damaged(self) -> bool:
        """Whether the copy still has damage."""
        return self.after is not None and self.after.damaged

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return {
            "root": str(self.root),
            "target": None if self.target is None else str(self.target),
            "damaged": self.damaged,
            "done": self.done,
            "before": self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
        }


def repair_store(
    files: Files,
    root: Path,
    target: Path,
    now_ms: int,
    utc_offset_ms: Callable[[int], int],
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    progress: ProgressListener = no_progress,
) -> RepairReport:
    """Check *root*; if there is anything to repair, make a repaired copy in the folder *target* and check the copy.

    Findings that the next start of a broker would repair are also repaired.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        StoreError: *target* already exists, or is inside the store; or due times do not match the delay levels, and
            *delay_levels* is None.
        OSError: the disk is full or failed.
    """
    before = check_store(files, root, log_folders=log_folders, delay_levels=delay_levels, progress=progress)
    if not (before.damaged or before.for_recovery):
        return RepairReport(root, None, before)
    if before.due_times and delay_levels is None:
        raise StoreError(
            f"the due times of {counted(before.due_times, 'delayed message')} in {root} are not those of the delay "
            f"levels '{before.delay_levels}', and a repair would change them; name the messageDelayLevel of its broker "
            "with --delay-levels"
        )
    if files.stat(target) is None:  # else it is refused in any case, even if it is an earlier copy
        refuse_store_folder(files, target, root)
    new_folder(files, target)
    report = RepairReport(root, target, before)
    layout = find_layout(files, root, log_folders)
    aside = target / "recovered" / str(now_ms)
    layout = _without_damaged_ext(layout, report)
    _copy_rest(files, layout, target)
    if delay_levels is not None:
        files.replace(target / DELAY_LEVELS, DelayLevels.of(delay_levels).pack())
    progress.begin("copying the log", layout.log.end - layout.log.start)
    copy_log(files, layout, target / COMMIT_LOG)
    progress.end()
    topics = _make_from_log(files, layout, target, aside, report, utc_offset_ms, delay_levels, progress)
    _copy_configs(files, layout, target / "config", aside / "config", topics, report.done)
    report.after = check_store(files, target, delay_levels=delay_levels, progress=progress)
    return report


def _make_from_log(
    files: Files,
    layout: Layout,
    target: Path,
    aside: Path,
    report: RepairReport,
    utc_offset_ms: Callable[[int], int],
    delay_levels: str | None,
    progress: ProgressListener,
) -> dict[str, int]:
    """Repair the copied log, write queues, index and checkpoint; return the number of queues that each topic needs."""
    reader, open_files = LogReader(files, layout.log), OpenFiles(files)
    damages: list[LogDamage] = []
    topics: dict[str, int] = {}
    last_timestamp, records_end, records = 0, layout.log.start, 0

    def count(queues: Sequence[Queue]) -> None:
        for queue in queues:
            topics[queue.topic] = max(topics.get(queue.topic, 0), queue.queue_id + 1)

    try:
        index_layout = present_index_layout(layout, open_files)
        tag_keys = bool(layout.index) and has_tag_keys(layout, index_layout, reader, open_files)
        rules = attrs.evolve(rules_of(files, layout, delay_levels), tag_keys=tag_keys)
        queues = QueueWriter(files, layout, target, open_files)
        index = IndexWriter(files, target / INDEX, index_layout, utc_offset_ms)
        progress.begin("queues and index", layout.log.end - layout.log.start)
        for part in ranges(reader, rules, index=bool(layout.index), progress=progress):
            damages += [
                damage if damage.timestamp else damage._replace(timestamp=last_timestamp or part.first_timestamp)
                for damage in part.damages
            ]
            queues.add(part)
            index.add(part)
            count([*part.queues, *part.batches])
            records += part.records
            last_timestamp = max(last_timestamp, part.last_timestamp)
            records_end = max(records_end, part.records_end)
        queue_files, index_files = queues.finish(), index.finish()
        progress.end()
        report.done += repair_log(files, reader, damages, records_end, target / COMMIT_LOG, aside / COMMIT_LOG)
        report.done += _correct_offsets(files, layout, queues, target / COMMIT_LOG)
    finally:
        reader.close()
        open_files.close()
    count([*layout.queues, *layout.batch])
    report.done.append(f"{records} records: {queue_files} queue files and {index_files} index files were rebuilt")
    if queues.lost:
        report.done.append(f"{queues.lost} queue offsets stay occupied: their messages are lost")
    present = read_checkpoint(files, layout)
    checkpoint = present._replace(
        log_timestamp=last_timestamp,
        queue_timestamp=last_timestamp,
        index_timestamp=last_timestamp if index_files else 0,
        confirmed_offset=min(present.confirmed_offset, records_end),
    )
    files.replace(target / "checkpoint", encode_checkpoint(checkpoint))
    return topics


def _correct_offsets(files: Files, layout: Layout, queues: QueueWriter, target: Path) -> list[str]:
    """Write the corrected queue offset into records of the copied log."""
    done = []
    for queue, log_offset, stated, right in queues.moved:
        start = log_offset - log_offset % layout.log.file_bytes
        file = files.open(target / file_name(start))
        try:
            file.pwrite(right.to_bytes(8, "big"), log_offset - start + _QUEUE_OFFSET_AT)
            file.datasync()
        finally:
            file.close()
        done.append(f"log offset {log_offset}: queue offset {stated} was corrected to {right} in {queue.topic}")
    return done


def _without_damaged_ext(layout: Layout, report: RepairReport) -> Layout:
    """Drop the ext files of queues with wrong ext files or addresses; their entries get plain tags codes.

    No message is lost: ext files only spare brokers reading a message's properties.
    """
    paths = [
        finding.path.split("/") for finding in report.before.findings if finding.kind.startswith(("ext.", "layout."))
    ]
    damaged = {Queue(path[1], int(path[2])) for path in paths if len(path) >= 3 and path[2].isdecimal()}
    for queue in sorted(damaged & layout.ext.keys()):
        report.done.append(
            f"ext files of {queue.topic}/{queue.queue_id} were dropped; its entries have plain tags codes"
        )
    return attrs.evolve(layout, ext={queue: each for queue, each in layout.ext.items() if queue not in damaged})


def _copy_rest(files: Files, layout: Layout, target: Path) -> None:
    """Copy everything except the log and rebuilt files."""
    log_folders = {file.path.parent for file in layout.log.files}
    ext_folders = {file.path.parent for series in layout.ext.values() for file in series.files}
    ext_root = layout.root / EXT_QUEUES

    def copy(source: Path, to: Path) -> None:
        for name in files.list(source):
            path, stat = source / name, files.stat(source / name)
            if stat is None or path in log_folders or (source == layout.root and name in _REWRITTEN):
                continue
            if (
                path.is_relative_to(ext_root)
                and stat.is_dir
                and path.parent.parent == ext_root
                and path not in ext_folders
            ):
                continue
            if stat.is_dir:
                files.make_dirs(to / name)
                copy(path, to / name)
            else:
                copy_file(files, path, to / name)

    copy(layout.root, target)


def _copy_configs(
    files: Files, layout: Layout, target: Path, aside: Path, topics: dict[str, int], done: list[str]
) -> None:
    source = layout.root / "config"
    files.make_dirs(target)
    for name in files.list(source):
        stat = files.stat(source / name)
        if stat is None or stat.is_dir or name == RESERVE:
            continue
        if name in NO_JSON or name.endswith(".bak") or json_problem(files, source / name) is None:
            copy_file(files, source / name, target / name)
            continue
        files.make_dirs(aside)
        copy_file(files, source / name, aside / name)
        backup = backup_of(source / name)
        if files.stat(backup) is not None and json_problem(files, backup) is None:
            copy_file(files, backup, target / name)
            done.append(f"config/{name} could not be read; it is replaced by its backup")
        else:
            done.append(f"config/{name} could not be read and has no sound backup; it is not copied")
    if files.stat(target / TOPICS) is None and topics:
        made = TopicsFile({name: TopicConfig(name, count, count) for name, count in sorted(topics.items())})
        files.replace(target / TOPICS, pretty(made.to_json()).encode())
        done.append(
            f"config/{TOPICS} was rebuilt from the queues: {len(topics)} topics, attributes and permissions are unknown"
        )
