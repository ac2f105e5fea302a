"""Statistics of a store: messages, bytes, offsets and times by topic and queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import Files
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.index import HEADER_BYTES, read_header
from gantrymq_store_files.log_walk import LogDamage, LogWalk
from gantrymq_store_tools.findings import ProgressListener, no_progress
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles

_PROGRESS_STEP_BYTES = 8 * 1024 * 1024


@attrs.define
class QueueStat:
    """Statistics of one queue's records in the log."""

    records: int = 0
    bytes: int = 0
    min_offset: int = -1  # queue offsets; a record that is not dispatched to a queue has none
    max_offset: int = -1
    first_ms: int = 0
    last_ms: int = 0

    def add(self, record: RecordView) -> None:
        """Count *record*."""
        self.records += 1
        self.bytes += record.total_size
        offset, stored = record.queue_offset, record.store_timestamp
        if self.records == 1:
            self.min_offset, self.first_ms = offset, stored
        self.max_offset, self.last_ms = max(self.max_offset, offset), max(self.last_ms, stored)


@attrs.define
class StoreStat:
    """Statistics of a whole store."""

    root: Path
    log_start: int
    log_end: int = 0
    log_files: int = 0
    log_file_bytes: int = 0
    records: int = 0
    record_bytes: int = 0
    fillers: int = 0  # records that replace lost ones
    damaged_places: int = 0
    damaged_bytes: int = 0
    first_ms: int = 0
    last_ms: int = 0
    queue_files: int = 0
    queue_file_bytes: int = 0
    ext_files: int = 0
    batch_files: int = 0
    index_files: int = 0
    index_keys: int = 0
    queues: dict[Queue, QueueStat] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as a JSON document."""
        members = {name: value for name, value in attrs.asdict(self, recurse=False).items() if name != "queues"}
        topics: dict[str, list[dict[str, Any]]] = {}
        for queue, found in sorted(self.queues.items()):
            topics.setdefault(queue.topic, []).append({"queue": queue.queue_id, **attrs.asdict(found)})
        return {
            **members,
            "root": str(self.root),
            "topics": [
                {
                    "topic": topic,
                    "records": sum(each["records"] for each in queues),
                    "bytes": sum(each["bytes"] for each in queues),
                    "queues": queues,
                }
                for topic, queues in topics.items()
            ],
        }


def stat_store(files: Files, layout: Layout, *, progress: ProgressListener = no_progress) -> StoreStat:
    """Read the whole log and the headers of the index. Raises OSError."""
    log = layout.log
    found = StoreStat(layout.root, log.start, log_files=len(log.files), log_file_bytes=log.file_bytes)
    reader, open_files = LogReader(files, log), OpenFiles(files)
    walk, told = LogWalk(reader, log.start, check_crc=False), log.start
    progress.begin("log", log.end - log.start)
    try:
        for each in walk:
            if walk.position - told >= _PROGRESS_STEP_BYTES:
                progress.advance(walk.position - told)
                told = walk.position
            if isinstance(each, LogDamage):
                if each.kind != "remains":
                    found.damaged_places += 1
                    found.damaged_bytes += each.size
                continue
            if is_filler(each):
                found.fillers += 1
                continue
            found.records += 1
            found.record_bytes += each.total_size
            found.first_ms = found.first_ms or each.store_timestamp
            found.last_ms = max(found.last_ms, each.store_timestamp)
            queue = Queue(each.topic, each.queue_id)
            counted = found.queues.get(queue)
            if counted is None:
                counted = found.queues[queue] = QueueStat()
            counted.add(each)
        for file in layout.index:
            header = read_header(open_files.read(file.path, 0, HEADER_BYTES).ljust(HEADER_BYTES, b"\0"))
            found.index_keys += header.index_count - 1
    finally:
        reader.close()
        open_files.close()
    progress.end()
    found.log_end = walk.zeros_from if walk.zeros_from >= 0 else walk.position
    found.queue_files = sum(len(series.files) for series in layout.queues.values())
    found.queue_file_bytes = next((series.file_bytes for series in layout.queues.values()), 0)
    found.ext_files = sum(len(series.files) for series in layout.ext.values())
    found.batch_files = sum(len(series.files) for series in layout.batch.values())
    found.index_files = len(layout.index)
    return found
