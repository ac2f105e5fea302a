"""The file layout and the manifest format of an archive. Names and plain values; no I/O.

    <root>/topic=Orders/date=2026-11-24/broker-a-<unique>.parquet    messages; every column except the date
    <root>/_manifest/<20 digits>.json                                one commit: files it added, progress of queues
    <root>/_manifest/<20 digits>.state.json                          the whole state up to that commit
    <root>/_staging/broker-a-<unique>.parquet                        written but not yet moved to its place
    <root>/_manifest/lock                                            held by the writer

Folders are Hive's, so Spark, DuckDB and pyarrow detect the partitions; they ignore names that start with ``_``. The
date is the UTC day of a message's store time. Characters that Hive escapes in a topic are written as ``%XX``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.errors import FormatError, InvalidParameter, StoreError
from gantrymq.plugin.model import Queue

MANIFEST = "_manifest"
STAGING = "_staging"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_MAX_NAME_BYTES = 255
_ESCAPED = re.compile(r"[^A-Za-z0-9_.\-|\u0080-\U0010ffff]")
_COMMIT = re.compile(r"(\d{20})\.json\Z")
_STATE = re.compile(r"(\d{20})\.state\.json\Z")
_FORMAT = 1


@attrs.frozen
class ArchivedFile:
    """One file of messages of one broker, topic and date."""

    path: str  # relative to the archive's root, with slashes
    broker_name: str
    topic: str
    date: str  # yyyy-mm-dd, UTC
    rows: int
    bytes: int
    first_ms: int  # store times
    last_ms: int
    queues: dict[int, tuple[int, int]]  # queue id: smallest queue offset, and the end after the largest

    @property
    def name(self) -> str:
        """The last part of its path; unique in the archive."""
        return self.path.rpartition("/")[2]


@attrs.frozen
class QueueProgress:
    """How far one queue of one broker is archived: everything in ``[start, next)`` except *lost*."""

    start: int  # queue offset of the first message
    next: int  # queue offset after the last message
    lost: tuple[tuple[int, int], ...] = ()  # queue offsets that the broker had deleted before they were archived


@attrs.frozen
class Commit:
    """One atomic change of an archive."""

    version: int  # from 1
    added: tuple[ArchivedFile, ...] = ()
    removed: tuple[str, ...] = ()  # paths
    progress: Mapping[tuple[str, Queue], QueueProgress] = attrs.field(factory=dict)  # by broker name and queue
    logs: Mapping[str, int] = attrs.field(
        factory=dict
    )  # by broker name: every record before this log offset is archived


@attrs.define
class ArchiveState:
    """The content of an archive."""

    version: int = 0
    files: dict[str, ArchivedFile] = attrs.field(factory=dict)  # by path
    progress: dict[tuple[str, Queue], QueueProgress] = attrs.field(factory=dict)
    logs: dict[str, int] = attrs.field(factory=dict)

    def apply(self, commit: Commit) -> None:
        """Apply the next commit.

        Raises:
            FormatError: *commit* is not the next one.
        """
        if commit.version != self.version + 1:
            raise FormatError(f"the archive's commit {self.version + 1} is missing; the next one is {commit.version}")
        for path in commit.removed:
            self.files.pop(path, None)
        self.files |= {file.path: file for file in commit.added}
        self.progress |= commit.progress
        self.logs |= commit.logs
        self.version = commit.version

    def check(self, commit: Commit) -> None:
        """Reject a commit that would duplicate a message, or mark one as archived that is not.

        Raises:
            StoreError: a queue goes backwards, or a file has messages outside the queue's progress.
        """
        for (broker_name, queue), ahead in commit.progress.items():
            current = self.progress.get((broker_name, queue))
            where = f"queue {queue.topic}/{queue.queue_id} of {broker_name}"
            if current is not None and ahead.next < current.next:
                raise StoreError(f"{where} is archived up to {current.next}; it cannot go back to {ahead.next}")
        replaced = [self.files[path] for path in commit.removed if path in self.files]
        for file in commit.added:
            if file.path in self.files:
                raise StoreError(f"{file.path} is already in the archive")
            for queue_id, (first, end) in file.queues.items():
                key = file.broker_name, Queue(file.topic, queue_id)
                before, after = self.progress.get(key), commit.progress.get(key)
                low = before.next if before is not None else 0
                high = after.next if after is not None else low
                if not low <= first < end <= high and not _replaces(replaced, file, queue_id):
                    raise StoreError(
                        f"{file.path} has offsets {first} to {end - 1} of queue {queue_id}, and this commit archives "
                        f"{low} to {high - 1}"
                    )

    def to_json(self) -> dict[str, Any]:
        """Return the state as a document."""
        return _document(self.version, self.files.values(), (), self.progress, self.logs)


def _replaces(replaced: list[ArchivedFile], file: ArchivedFile, queue_id: int) -> bool:
    """Return whether *file* replaces messages of a queue that were in the removed files."""
    spans = [
        each.queues[queue_id]
        for each in replaced
        if (each.broker_name, each.topic, each.date) == (file.broker_name, file.topic, file.date)
        and queue_id in each.queues
    ]
    first, end = file.queues[queue_id]
    return bool(spans) and min(spans)[0] <= first and end <= max(end for _, end in spans)


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return *commit* as a document."""
    return _document(commit.version, commit.added, commit.removed, commit.progress, commit.logs)


def read_commit(document: Any, where: str) -> Commit:
    """Parse a commit, or a state as one commit.

    Raises:
        FormatError: *document* is not of an archive, or of a newer format.
    """
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise FormatError(f"{where} is not a manifest of an archive, or of a format newer than {_FORMAT}")
    try:
        added = tuple(
            ArchivedFile(**{**file, "queues": {int(queue): tuple(span) for queue, span in file["queues"].items()}})
            for file in document["files"]
        )
        progress = {
            (broker_name, Queue(topic, queue_id)): QueueProgress(start, end, tuple((a, b) for a, b in lost))
            for broker_name, topic, queue_id, start, end, lost in document["progress"]
        }
        return Commit(document["version"], added, tuple(document["removed"]), progress, document["logs"])
    except (KeyError, TypeError, ValueError) as problem:
        raise FormatError(f"{where} is not a manifest of an archive: {problem!r}") from None


def folder_of(topic: str, date: str) -> str:
    """Return the folder of a topic's day, relative to the archive's root.

    Raises:
        InvalidParameter: the topic is too long for a folder name.
    """
    name = f"topic={safe_name(topic)}"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        raise InvalidParameter(f"the topic {topic[:40]!r}... is too long for a folder's name")
    return f"{name}/date={date}"


def safe_name(text: str) -> str:
    """Return *text* with everything that Hive escapes as ``%XX``."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def commit_name(version: int) -> str:
    """Return the file name of a commit."""
    return f"{version:020d}.json"


def state_name(version: int) -> str:
    """Return the file name of a state."""
    return f"{version:020d}.state.json"


def commit_version(name: str, *, state: bool = False) -> int | None:
    """Return the version in a file name; None for a file of another kind."""
    found = (_STATE if state else _COMMIT).match(name)
    return int(found[1]) if found is not None else None


def _document(
    version: int,
    files: Any,
    removed: tuple[str, ...],
    progress: Mapping[tuple[str, Queue], QueueProgress],
    logs: Mapping[str, int],
) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": version,
        "files": [attrs.asdict(file) for file in files],
        "removed": list(removed),
        "progress": [
            [broker_name, queue.topic, queue.queue_id, each.start, each.next, [list(span) for span in each.lost]]
            for (broker_name, queue), each in sorted(progress.items())
        ],
        "logs": dict(logs),
    }
