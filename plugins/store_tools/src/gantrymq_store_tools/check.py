"""Read-only check of a whole store: the log, and all files derived from it.

    report = check_store(files, root)
    report.damaged, report.findings

If a broker has the store open, it is checked up to its checkpoint. If the store was not shut down
cleanly, it is checked as a whole, and what the next start of a broker repairs is not counted as damage.

Memory is bounded: the log is read in ranges of 64 MB, whose entries are discarded after the comparison.

While a broker has the store open, files appear and disappear, and data may be half written when it is read. Real damage
persists, so `check_open_store` reports a finding only if two checks agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import StoreError, StoreLayoutError
from gantrymq.plugin.world import Files
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.batch_check import BatchCheck
from gantrymq_store_tools.config_check import NO_LIMIT, check_checkpoint, check_configs, read_checkpoint, vouched_to
from gantrymq_store_tools.findings import Finding, ProgressListener, due_times, no_progress, only_due_times
from gantrymq_store_tools.index_check import IndexCheck
from gantrymq_store_tools.index_files import find_index_layout, usual_layout
from gantrymq_store_tools.layout import Layout, find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_check import QueueCheck, check_ext
from gantrymq_store_tools.rebuild import in_order, rebuild_range
from gantrymq_store_tools.record_entries import EntryRules, RangePart
from gantrymq_store_tools.store_rules import known_topics, rules_of

_RANGE_BYTES = 64 * 1024 * 1024
_TAIL = frozenset({"log.torn", "log.damaged", "log.zeros"})
_MAX_ATTEMPTS = 3  # if files are deleted before they are read


@attrs.define
class CheckReport:
    """The result of a check."""

    root: Path
    findings: list[Finding] = attrs.field(factory=list)
    records: int = 0
    log_start: int = 0
    log_end: int = 0  # end of the last record
    queues: int = 0
    queue_entries: int = 0
    batch_queues: int = 0
    batch_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    clean_stop: bool = True  # the file `abort` does not exist
    in_use: bool = False  # a broker had the store open: nothing after `vouched_to` was checked
    delay_levels: str = ""  # the newest of those used for due times
    vouched_to: int | None = None  # log offset up to which the store must be intact; None after a clean stop: all of it

    @property
    def damaged(self) -> bool:
        """Whether any finding is damage."""
        return any(finding.damage for finding in self.findings)

    @property
    def due_times(self) -> int:
        """The number of delayed messages with other due times than `delay_levels` give."""
        return due_times(self.findings)

    @property
    def only_due_times(self) -> bool:
        """Whether all damage is of due times, so that the broker may only have other delay levels."""
        return only_due_times(self.findings)

    @property
    def for_recovery(self) -> int:
        """The number of findings that the next start of a broker repairs."""
        return sum(finding.recovery for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        members = {name: value for name, value in attrs.asdict(self, recurse=False).items() if name != "findings"}
        return {
            **members,
            "root": str(self.root),
            "damaged": self.damaged,
            "only_due_times": self.only_due_times,
            "findings": [finding.to_json() for finding in self.findings],
        }


def check_store(
    files: Files,
    root: Path,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    check_crc: bool = True,
    in_use: bool = False,
    progress: ProgressListener = no_progress,
) -> CheckReport:
    """Check everything below *root* without writing.

    Args:
        log_folders: see `find_layout`.
        delay_levels: the broker's messageDelayLevel, which determines the due times of delayed messages; by default as
            recorded in the store, else RocketMQ's default.
        check_crc: whether the CRCs of bodies are checked.
        in_use: a broker has the store open; only data covered by its checkpoint is checked. Files appear and disappear
            meanwhile, so use `check_open_store`.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        ConfigError: *delay_levels* is malformed.
        OSError: a folder cannot be read.
    """
    layout = find_layout(files, root, log_folders)
    report = CheckReport(root, list(layout.findings), clean_stop=not layout.abort, in_use=in_use)
    open_files = OpenFiles(files)
    reader = LogReader(files, layout.log)
    try:
        if in_use or layout.abort:
            report.vouched_to = vouched_to(files, layout, reader, in_use=in_use)
        _check(files, layout, reader, open_files, report, delay_levels, check_crc, progress)
    finally:
        reader.close()
        open_files.close()
    return report


def _check(
    files: Files,
    layout: Layout,
    reader: LogReader,
    open_files: OpenFiles,
    report: CheckReport,
    delay_levels: str | None,
    check_crc: bool,
    progress: ProgressListener,
) -> None:
    rules = attrs.evolve(rules_of(files, layout, delay_levels), tag_keys=True)
    report.delay_levels = rules.delay_levels.texts[-1]
    index_layout = None
    if layout.index:
        index_layout = find_index_layout(layout.index, open_files) or usual_layout(layout.index[0].size)
    bound, vouched_ms = NO_LIMIT, NO_LIMIT
    if report.vouched_to is not None:
        bound, vouched_ms = report.vouched_to, read_checkpoint(files, layout).index_timestamp
    end = min(bound, layout.log.end) if report.in_use else layout.log.end
    queues = QueueCheck(layout, open_files, known_topics(files, layout), bound)
    batches = BatchCheck(layout, open_files, bound)
    index = IndexCheck(layout, index_layout, open_files, vouched_ms, bound)
    first_timestamp = last_timestamp = 0
    progress.begin("log and queues", end - layout.log.start)
    damages = []
    last_end = layout.log.start  # end of the last sound record
    for part in ranges(reader, rules, end=end, check_crc=check_crc, progress=progress, index=bool(layout.index)):
        damages += part.damages
        last_end = max(last_end, part.records_end)
        queues.check_part(part)
        batches.check_part(part)
        index.check_part(part)
        report.records += part.records
        first_timestamp = first_timestamp or part.first_timestamp
        last_timestamp = max(last_timestamp, part.last_timestamp)
        report.log_end = part.zeros_from if part.zeros_from >= 0 else part.end
    progress.end()
    report.log_start = layout.log.start
    of_log = log_findings(layout, reader, damages)
    if report.vouched_to is not None:
        tail_from = end if report.in_use else last_end
        of_log = [_left_by_kill(each) if (each.place or 0) >= tail_from else each for each in of_log]
    report.findings += of_log + queues.finish() + batches.finish() + index.finish()
    report.findings += check_ext(layout, open_files)
    if not report.in_use:
        report.findings += check_checkpoint(files, layout, first_timestamp, last_timestamp)
    report.findings += check_configs(files, layout)
    if layout.abort and not report.in_use:
        text = "the file abort exists: the broker was not shut down cleanly, and its next start checks the log's end"
        report.findings.append(Finding("store.abort", "abort", text, damage=False))
    if not layout.index:
        text = "there is no index; messages cannot be found by key (create one with gantrymq store rebuild-index)"
        report.findings.append(Finding("index.absent", "index", text, damage=False))
    report.queues, report.queue_entries = len(layout.queues), queues.entries
    report.batch_queues, report.batch_entries = len(layout.batch), batches.entries
    report.index_files, report.index_entries = len(layout.index), index.entries
    if report.in_use:
        report.log_end = max(report.log_start, min(report.log_end, end))
        report.findings = [finding for finding in report.findings if not finding.recovery]


def _left_by_kill(finding: Finding) -> Finding:
    """Mark damage that a killed broker leaves at the log's end: no sound record follows, the next start cuts it off."""
    return finding.for_recovery() if finding.kind in _TAIL else finding


def ranges(
    reader: LogReader,
    rules: EntryRules,
    *,
    end: int | None = None,
    check_crc: bool = True,
    queues: bool = True,
    index: bool = True,
    progress: ProgressListener = no_progress,
) -> Iterator[RangePart]:
    """Yield the log up to *end* in parts of 64 MB, in order; zeros between two parts are reported as damage.

    Raises:
        StoreLayoutError: the log holds bytes but no sound record.
    """

    def parts() -> Iterator[RangePart]:
        start, stop = reader.log.start, reader.log.end if end is None else end
        records, damaged = 0, 0
        while start < stop:
            part = rebuild_range(
                reader,
                start,
                min(start + _RANGE_BYTES, stop),
                rules,
                check_crc=check_crc,
                queues=queues,
                index=index,
            )
            progress.advance(part.end - start)
            records += part.records
            damaged += len(part.damages)
            yield part
            start = part.end
        refuse_no_log(reader, records, damaged)

    return in_order(parts())


def refuse_no_log(reader: LogReader, records: int, damaged: int) -> None:
    """Raise StoreLayoutError if the log holds bytes but no sound record."""
    if damaged and not records:
        raise StoreLayoutError(
            f"{reader.log.files[0].path.parent} holds {damaged} ranges of bytes and no sound record: it is "
            "not a commit log of RocketMQ's file store, or its content is lost"
        )


def log_findings(layout: Layout, reader: LogReader, damages: Sequence[LogDamage]) -> list[Finding]:
    """Convert the damage found by a walk over the log to findings."""
    found = []
    for kind, log_offset, size, problem, _ in damages:
        file = reader.file_at(log_offset)
        path = layout.name(file.path) if file is not None else layout.name(layout.log.files[0].path.parent)
        found.append(Finding(f"log.{kind}", path, problem, log_offset, size, damage=kind != "remains"))
    for log_offset, size, problem in reader.unreadable:
        file = reader.file_at(log_offset)
        path = layout.name(file.path) if file is not None else "commitlog"
        text = f"{size} bytes at log offset {log_offset} cannot be read: {problem}"
        found.append(Finding("log.unreadable", path, text, log_offset, size))
    return found


def check_open_store(
    files: Files,
    root: Path,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    check_crc: bool = True,
    progress: ProgressListener = no_progress,
) -> CheckReport:
    """Like `check_store`, up to `CheckReport.vouched_to`; if damage is found, the store is checked a second time.

    Raises:
        StoreError: files were deleted before they were read, in every attempt.
        as `check_store`: otherwise.
    """

    def check() -> CheckReport:
        for _ in range(_MAX_ATTEMPTS):
            try:
                return check_store(
                    files,
                    root,
                    log_folders=log_folders,
                    delay_levels=delay_levels,
                    check_crc=check_crc,
                    in_use=True,
                    progress=progress,
                )
            except FileNotFoundError as error:
                gone = error.filename
        raise StoreError(
            f"{gone} was deleted while {root} was read; a broker has it open, so try again, or stop the broker first"
        )

    report = check()
    if report.damaged:
        before = {_identity(finding) for finding in report.findings}
        report = check()
        report.findings = [each for each in report.findings if not each.damage or _identity(each) in before]
    return report


def _identity(finding: Finding) -> tuple[str, str, int | None]:
    return finding.kind, finding.path, finding.place
