"""GantryMQ's own checkpoint file: the log offset up to which everything is durable, and the ends of all queues.

    <store>/checkpoint.json
    {"offset": <log offset>, "newest": [<place>, <size>, <store time>], "logMin": <log offset>,
     "times": [<log>, <queue>], "fileBytes": [<queue>, <batch queue>, <ext>], "index": {...},
     "queues": {"<topic>": {"<queue id>": [<minimum>, <end>]}}, "batchQueues": {...},
     "ext": {"<topic>": {"<queue id>": <end>}},
     "crc": <CRC-32 of all before `, "crc"`>}

It is one JSON document with one line per topic, read and written line by line: parsing one large text would block the
event loop, because the interpreter's lock is held meanwhile.

Every record before *offset* is durable, and so is every queue entry, ext unit and index entry of these records. After a
crash the log is read from there. Queues without records after *offset* end where this file says and need not be
searched; so queue offsets are not reused even if the files of a queue are lost.

While the log is being truncated, the document also has ``"logEnd": <log offset>`` after *index*: nothing from there on
belongs to the log any more.

RocketMQ ignores the file. If a Java broker used the store since, it has changed the times in ``checkpoint``, and this
file is not used: the ends of queues are searched for, and recovery begins where RocketMQ's would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import attrs

from gantrymq.plugin.world import FileReader, FileTree
from gantrymq_store_files.checkpoint import Checkpoint

FILE_NAME = "checkpoint.json"
_CRC = b', "crc": '

SavedQueues = dict[str, dict[str, Any]]  # by topic and queue id


@attrs.frozen
class SavedPoint:
    """Contents of the file."""

    offset: int
    newest: tuple[int, int, int]  # log offset, size, store time (ms) of the last record before it; (-1, 0, 0): none
    log_min: int  # start of the log
    log_timestamp: int  # of RocketMQ's checkpoint saved at the same time, ms
    queue_timestamp: int
    file_bytes: tuple[int, int, int]  # file sizes of queues, batch queues, ext files
    index: dict[str, Any]
    queues: SavedQueues  # [minimum, end], queue offsets
    batch_queues: SavedQueues  # [first, end], numbers of entries
    ext: SavedQueues  # position after the last unit
    log_end: int | None = None  # the log is being truncated there, which the next start completes

    def belongs_to(self, checkpoint: Checkpoint) -> bool:
        """Return whether no other broker used the store since: RocketMQ's *checkpoint* is not newer than this one."""
        return checkpoint.log_timestamp <= self.log_timestamp and checkpoint.queue_timestamp <= self.queue_timestamp


def read_point(files: FileReader, root: Path, report: Callable[[str], object]) -> SavedPoint | None:
    """Read the file below *root*; None if it is missing or not usable. *report* receives the reason."""
    path = root / FILE_NAME
    if files.stat(path) is None:
        return None
    try:
        text, _, crc = files.read(path).rpartition(_CRC)
        if int(crc.removesuffix(b"}")) != crc32(text):
            raise ValueError("its check sum does not match")
        found = _parsed(text)
        log_timestamp, queue_timestamp = found["times"]
        return SavedPoint(
            found["offset"],
            tuple(found["newest"]),
            found["logMin"],
            log_timestamp,
            queue_timestamp,
            tuple(found["fileBytes"]),
            found["index"],
            found["queues"],
            found["batchQueues"],
            found["ext"],
            found.get("logEnd"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        report(f"{path} cannot be used ({problem}); searching for the ends of the queues")
        return None


def _parsed(text: bytes) -> dict[str, Any]:
    """Parse the document without its check sum."""
    head, *lines = text.split(b"\n")
    found: dict[str, Any] = json.loads(head.removesuffix(b",") + b"}")
    table: SavedQueues = {}
    for line in lines:
        if line.endswith(b": {"):
            table = found.setdefault(json.loads(line[:-3]), {})
        elif not line.startswith(b"}"):
            table.update(json.loads(b"{%s}" % line.removesuffix(b",")))
    return found


def write_point(files: FileTree, root: Path, point: SavedPoint) -> None:
    """Write the file. Runs in a thread.

    Raises:
        OSError: it cannot be written.
    """
    head = {
        "offset": point.offset,
        "newest": point.newest,
        "logMin": point.log_min,
        "times": (point.log_timestamp, point.queue_timestamp),
        "fileBytes": point.file_bytes,
        "index": point.index,
    }
    if point.log_end is not None:
        head["logEnd"] = point.log_end
    parts = [json.dumps(head, ensure_ascii=False)[:-1]]
    for name, topics in (("queues", point.queues), ("batchQueues", point.batch_queues), ("ext", point.ext)):
        rows = (f"{json.dumps(topic, ensure_ascii=False)}: {json.dumps(ids)}" for topic, ids in topics.items())
        parts.append("\n".join((f'"{name}": {{', ",\n".join(rows), "}")))
    text = ",\n".join(parts).encode("utf-8")
    files.replace(root / FILE_NAME, text + _CRC + b"%d}" % crc32(text))
