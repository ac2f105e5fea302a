"""Copies a store into a backup, while a broker has it open or afterwards. The store is not changed.

A broker that is running writes all the time, so a backup is what a killed broker would have left, with a log that ends
after a whole record. Files are read in this order, so that nothing in the backup refers to data that is not in it:

    positions      offsets of consumers, delays and timers; the log that is copied later contains their messages
    other files    timer wheel and timer log, files of plugins; the log contains their messages, too
    checkpoint     everything before it is in the queues and in full index files
    queues         entries of records before the checkpoint; the next start adds the later ones, from the log
    index          files that the checkpoint covers; the next start builds later ones again
    log            up to the last whole record at the time of the checkpoint; the newest file first, as brokers delete
                   the oldest one. If one was deleted, the backup begins after it
    tables         topics and groups; they include the topics of all records
    manifest       sizes and checksums, after everything else is durable

The margin of three seconds that RocketMQ subtracts from the checkpoint is subtracted before the queues are cut. A store
that was shut down cleanly is copied completely, and its copy starts as after a clean stop.

Source: apache/rocketmq store/.../CommitLog.java (recoverAbnormally), index/IndexService.java (load).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from gantrymq import __version__
from gantrymq.errors import StoreError
from gantrymq.plugin.formats import BATCH_QUEUES, COMMIT_LOG, EXT_QUEUES, INDEX, QUEUES
from gantrymq.plugin.world import Files, is_disk_full
from gantrymq_store_files.checkpoint import RECOVERY_MARGIN_MS, Checkpoint, encode_checkpoint
from gantrymq_store_files.dropped_topics import DROPPED_TOPICS
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_tools.backup_manifest import MANIFEST, STORED, Manifest, write_manifest
from gantrymq_store_tools.check import check_store
from gantrymq_store_tools.config_check import NO_LIMIT, read_checkpoint, vouched_to
from gantrymq_store_tools.config_copy import CONFIG, ConfigCopy
from gantrymq_store_tools.findings import Finding, ProgressListener, no_progress, only_due_times
from gantrymq_store_tools.layout import Layout, find_layout, refuse_non_store
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.rebuild_store import present_index_layout
from gantrymq_store_tools.store_copy import DerivedCopy, DurableTo, EarlierLog, LogCopy, log_end
from gantrymq_store_tools.store_rules import has_tag_keys
from gantrymq_store_tools.summed_copy import NewFolder

_CHECKPOINT, _OWN_CHECKPOINT, _ABORT = "checkpoint", "checkpoint.json", "abort"
_WHEEL = "timerwheel"
_NOT_COPIED = frozenset({"recovered", "dropped", "lock", "rocksdbstore"})
_ELSEWHERE = frozenset(
    {_CHECKPOINT, _OWN_CHECKPOINT, _ABORT, DROPPED_TOPICS, CONFIG, COMMIT_LOG, QUEUES, EXT_QUEUES, BATCH_QUEUES, INDEX}
)
_ATTEMPTS = 5  # if log files are deleted before their end was found


@attrs.define
class BackupReport:
    """The result of a backup."""

    backup: Path
    manifest: Manifest
    linked: int  # files that are hard links
    findings: list[Finding] = attrs.field(factory=list)

    @property
    def damaged(self) -> bool:
        """Whether damage was found in the copy, and so in the store."""
        return bool(self.manifest.damaged)

    @property
    def only_due_times(self) -> bool:
        """Whether all damage is of due times, see `CheckReport.only_due_times`."""
        return only_due_times(self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        findings = [finding.to_json() for finding in self.findings]
        members = {**self.manifest.to_json(), "linked": self.linked, "findings": findings}
        return {"backup": str(self.backup), **members}


def backup_store(
    files: Files,
    root: Path,
    backup: Path,
    now_ms: int,
    *,
    log_folders: Sequence[Path] = (),
    delay_levels: str | None = None,
    check: bool = True,
    link: bool = False,
    previous: Path | None = None,
    progress: ProgressListener = no_progress,
) -> BackupReport:
    """Back up the store *root* into the folder *backup*, which is created, and check the copy.

    Args:
        now_ms: time of the backup.
        log_folders: see `find_layout`.
        delay_levels: the broker's messageDelayLevel, for the check; see `check_store`.
        check: read all records and queue entries of the copy, as `check_store` does.
        link: hard links to full log files of the store instead of copies, if both are on one file system.
        previous: an earlier backup of the store; its full log files are linked, and not read again.

    Raises:
        StoreLayoutError: *root* is not a store that can be read.
        StoreError: *backup* is not empty, or is inside the store or the reverse; log files are deleted faster than they
            can be copied; a broker began to use a store that was clean; a file cannot be read; the disk is full.
        OSError: the disk failed. After any error *backup* is incomplete.
    """
    _refuse_folder(files, root, backup)
    refuse_non_store(files, root, log_folders)
    clean = files.stat(root / _ABORT) is None
    before = _content(files, root / _CHECKPOINT)
    config = ConfigCopy(files, root)
    earlier = None if previous is None else EarlierLog(files, previous)
    new = NewFolder(files, backup / STORED)
    try:
        progress.begin("copying small files and timers", 0)
        _copy_others(files, root, "", log_folders, new, progress)
        progress.end()
        extent = _find_extent(files, root, log_folders, clean)
        progress.begin("copying", extent.log_end - extent.layout.log.start)
        DerivedCopy(files, new, extent.layout, progress).run(
            None if clean else DurableTo(extent.queues_to, extent.checkpoint)
        )
        log, end = extent.layout.log, extent.log_end
        start = LogCopy(new, log, end, progress, fixed_to=extent.queues_to, link=link, earlier=earlier).run()
        if start is None:
            raise StoreError(f"the log files of {root} were deleted before they were copied; back it up again")
        progress.end()
        for path, data in config.read_all().items():
            new.write(path, data)
        if clean:
            for name in (_CHECKPOINT, _OWN_CHECKPOINT):
                if (content := _content(files, root / name)) is not None:
                    new.write(name, content)
            if files.stat(root / _ABORT) is not None or _content(files, root / _CHECKPOINT) != before:
                raise StoreError(f"a broker began to use {root} during its backup; back it up again")
        else:
            new.write(_CHECKPOINT, encode_checkpoint(extent.checkpoint))
            new.write(_ABORT, b"")
        new.finish()
    except OSError as error:
        if is_disk_full(error):
            raise StoreError(f"the disk of {backup} is full; the backup is incomplete, remove it") from error
        raise
    finally:
        new.close()
    manifest = Manifest(
        created_ms=now_ms,
        version=__version__,
        store=str(root.absolute()),
        clean=clean,
        log_start=start,
        log_end=extent.log_end,
        queues_to=min(extent.queues_to, extent.log_end),
        index_slots=extent.index.slots,
        index_entries=extent.index.entries,
        index_tags=extent.index_tags,
        records=None,
        damaged=None,
        files=tuple(file for _, file in sorted(new.stored.items())),
    )
    report = BackupReport(backup, manifest, new.linked)
    if check:
        checked = check_store(files, backup / STORED, delay_levels=delay_levels, progress=progress)
        report.findings = checked.findings
        report.manifest = attrs.evolve(manifest, records=checked.records, damaged=checked.damaged)
    write_manifest(files, backup, report.manifest)
    return report


def _refuse_folder(files: Files, root: Path, backup: Path) -> None:
    store, target = root.absolute(), backup.absolute()
    if target.is_relative_to(store) or store.is_relative_to(target):
        raise StoreError(f"{backup} and {root} contain each other; name a folder outside the store")
    names = files.list(backup)
    if MANIFEST in names:
        raise StoreError(f"{backup} already has a backup; name a new folder")
    if STORED in names:
        raise StoreError(f"{backup} has an interrupted backup; remove it, or name a new folder")
    if names not in ([], ["lost+found"]):
        raise StoreError(f"{backup} is not empty: it has {names[0]}; name a new folder")


@attrs.frozen
class _Extent:
    """What is copied of the log and of the files derived from it."""

    layout: Layout
    clean: bool  # everything
    checkpoint: Checkpoint  # of the copy
    queues_to: int  # log offset; entries of later records are not copied
    log_end: int
    index: IndexLayout  # of all its files
    index_tags: bool


def _find_extent(files: Files, root: Path, log_folders: Sequence[Path], clean: bool) -> _Extent:
    for _ in range(_ATTEMPTS):
        layout = find_layout(files, root, log_folders)
        checkpoint, queues_to = read_checkpoint(files, layout), NO_LIMIT
        reader, open_files = LogReader(files, layout.log), OpenFiles(files)
        try:
            if not clean:
                queues_to = vouched_to(files, layout, reader, in_use=True)
                durable_ms = max(0, min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - RECOVERY_MARGIN_MS)
                checkpoint = checkpoint._replace(log_timestamp=durable_ms, queue_timestamp=durable_ms)
            end = log_end(files, layout, None if clean else queues_to)
            index = present_index_layout(layout, open_files)
            tags = bool(layout.index) and has_tag_keys(layout, index, reader, open_files)
            return _Extent(layout, clean, checkpoint, queues_to, end, index, tags)
        except FileNotFoundError as error:
            gone = error.filename
        finally:
            reader.close()
            open_files.close()
    raise StoreError(f"{gone} was deleted while {root} was read; back it up again")


def _copy_others(
    files: Files, source: Path, path: str, log_folders: Sequence[Path], new: NewFolder, progress: ProgressListener
) -> None:
    """Copy files that have no rules of their own: timer wheel and log, files of plugins and of later versions."""
    names = files.list(source)
    for name in sorted(names, key=lambda each: (each != _WHEEL, each)):  # the timer log has all that the wheel names
        each, target = source / name, f"{path}{name}"
        stat = files.stat(each)
        if stat is None or name.endswith(".tmp") or target in _NOT_COPIED | _ELSEWHERE or each in log_folders:
            continue
        if stat.is_dir:
            _copy_others(files, each, f"{target}/", log_folders, new, progress)
            continue
        with suppress(FileNotFoundError):  # deleted meanwhile
            new.copy(each, target, advance=progress.advance)


def _content(files: Files, path: Path) -> bytes | None:
    try:
        return files.read(path)
    except FileNotFoundError:
        return None
