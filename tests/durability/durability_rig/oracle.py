"""Checks from recorded calls whether anything left the broker before it was durable.

An answer makes records visible: the answer to a send those it acknowledges, the answer to a pull those it carries. When
its first byte is passed to the transport, each of them must have been written, every write that touches it must have
been made before the start of a completed sync of its file, and the name of that file must be durable. The answer to a
send with WAIT=false claims nothing and is only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs

from durability_rig.watched_network import Answer
from gantrymq.formats.record import RecordView, iter_records, read_record
from gantrymq_testing.recording import SYNC_ENDS, WRITES, Call

OFFSET_DIGITS = 16  # the tail of an offset id, hexadecimal


class VisibleRecord(NamedTuple):
    """A record that an answer shows."""

    number: int  # of the call when the answer left
    kind: str  # "send" or "pull"
    log_offset: int
    size: int
    waits: bool  # the answer promises that the record is durable


class Violation(NamedTuple):
    """An answer that promised more than the disk had."""

    shown: VisibleRecord
    path: Path
    missing: str


@attrs.define
class Verdict:
    """Numbers of checked answers, and the violations."""

    sends: int = 0  # records acknowledged as durable
    unwaited: int = 0  # records acknowledged with WAIT=false
    unwaited_early: int = 0  # number of them before they were durable
    pulled: int = 0  # records handed to consumers
    syncs: int = 0
    files: set[Path] = attrs.field(factory=set)
    violations: list[Violation] = attrs.field(factory=list)

    def __str__(self) -> str:
        counts = (
            f"{self.sends} sends, {self.unwaited} of WAIT=false ({self.unwaited_early} early), {self.pulled} pulled"
        )
        head = f"{counts}, {self.syncs} syncs, {len(self.files)} files, {len(self.violations)} violations"
        return "\n  ".join([head, *map(str, self.violations[:3])])


class LogFiles:
    """The commit log on disk after the run."""

    def __init__(self, files: Mapping[Path, bytes]) -> None:
        """*files*: path to content; names are offsets, all have one size."""
        self._files = files
        self.file_bytes = len(next(iter(files.values())))
        self._paths = {int(path.name): path for path in files}

    def place(self, log_offset: int) -> tuple[Path, int]:
        """File and position in it."""
        start = log_offset - log_offset % self.file_bytes
        return self._paths[start], log_offset - start

    def record(self, log_offset: int) -> RecordView:
        """The record at *log_offset*."""
        path, position = self.place(log_offset)
        return read_record(self._files[path], position)


def judge(calls: Sequence[Call], answers: Iterable[Answer], log: LogFiles) -> Verdict:
    """Go through the calls in their order and look at every answer when it left."""
    due: dict[int, list[VisibleRecord]] = {}
    for answer in answers:
        for shown in visible_records(answer, log):
            due.setdefault(shown.number, []).append(shown)
    verdict = Verdict()
    disk = Disk()
    for call in calls:
        for shown in due.get(call.number, ()):
            _look(shown, disk, log, verdict)
        disk.see(call)
        verdict.syncs += call.name == SYNC_ENDS and call.path in disk.written
    return verdict


def visible_records(answer: Answer, log: LogFiles) -> list[VisibleRecord]:
    """The records that an answer shows; none for answers of other kinds."""
    command = answer.command
    ext = command.ext or {}
    if not command.is_response or command.code != 0:
        return []
    if "msgId" in ext and "queueOffset" in ext:
        offsets = [int(each[-OFFSET_DIGITS:], 16) for each in ext["msgId"].split(",")]
        records = [log.record(offset) for offset in offsets]
        return [
            VisibleRecord(answer.number, "send", r.log_offset, r.total_size, r.properties.get("WAIT") != "false")
            for r in records
        ]
    if "nextBeginOffset" in ext:
        found = iter_records(command.payload)
        return [VisibleRecord(answer.number, "pull", r.log_offset, r.total_size, True) for r in found]
    return []


def _sent(number: int, record: RecordView) -> VisibleRecord:
    return VisibleRecord(number, "send", record.log_offset, record.total_size, record.properties.get("WAIT") != "false")


class Disk:
    """Written and durable data, call by call."""

    def __init__(self) -> None:
        self.written: dict[Path, int] = {}  # end of the written data
        self._unsynced: dict[Path, list[Call]] = {}
        self._unnamed: set[Path] = set()  # made, and the folder not synced since

    def see(self, call: Call) -> None:
        """Take the next call."""
        if call.name in WRITES:
            self.written[call.path] = max(self.written.get(call.path, 0), call.position + call.length)
            self._unsynced.setdefault(call.path, []).append(call)
        elif call.name == SYNC_ENDS:
            left = [each for each in self._unsynced.get(call.path, ()) if each.number > call.begun]
            self._unsynced[call.path] = left
        elif call.name == "allocate":
            self._unnamed.add(call.path)
        elif call.name == "sync_dir":
            self._unnamed = {path for path in self._unnamed if path.parent != call.path}

    def missing(self, path: Path, start: int, end: int) -> str | None:
        """Return why ``[start, end)`` of *path* would not survive a power cut; None if it would."""
        if self.written.get(path, 0) < end:
            return "not written"
        if any(each.position < end and start < each.position + each.length for each in self._unsynced.get(path, ())):
            return "not synced"
        return "in a file whose name is not synced" if path in self._unnamed else None


def _look(shown: VisibleRecord, disk: Disk, log: LogFiles, verdict: Verdict) -> None:
    path, start = log.place(shown.log_offset)
    verdict.files.add(path)
    missing = disk.missing(path, start, start + shown.size)
    if not shown.waits:
        verdict.unwaited += 1
        verdict.unwaited_early += missing is not None
        return
    if shown.kind == "send":
        verdict.sends += 1
    else:
        verdict.pulled += 1
    if missing is not None:
        verdict.violations.append(Violation(shown, path, missing))
