"""What one range of the log says: the queue entries and index keys that its records make, as plain values.

Parts are pickled and sent between processes. What an index entry needs is kept as columns: hash, log offset and store
time of each key, in the order of the index.
"""

from __future__ import annotations

from array import array

import attrs

from gantrymq.model.queue import Queue
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY_BYTES

__all__ = ["IndexKeys", "RangePart", "Run"]


@attrs.define
class Run:
    """Entries of one queue with consecutive queue offsets. A batch entry is a run of its own."""

    start: int  # queue offset of the first
    entries: bytearray  # packed
    end: int  # queue offset behind the last


@attrs.define
class IndexKeys:
    """Keys in the order of the index."""

    hashes: array[int] = attrs.field(factory=lambda: array("i"))
    log_offsets: array[int] = attrs.field(factory=lambda: array("q"))
    timestamps: array[int] = attrs.field(factory=lambda: array("q"))
    tags: array[int] = attrs.field(factory=lambda: array("b"))  # 1: the key of a tag, which only some brokers write

    def extend(self, more: IndexKeys) -> None:
        """Put *more* behind."""
        self.hashes.extend(more.hashes)
        self.log_offsets.extend(more.log_offsets)
        self.timestamps.extend(more.timestamps)
        self.tags.extend(more.tags)


@attrs.define
class RangePart:
    """What one range of the log says."""

    start: int  # log offset of the first place that was looked at
    end: int  # behind the last record, blank or damage; the next range begins here
    zeros_from: int = -1  # only zeros from here on; -1 when the range ends in something else
    records: int = 0
    record_bytes: int = 0
    first_timestamp: int = 0  # ms, the first record's store time; 0 without records
    last_timestamp: int = 0  # ms, the largest store time
    records_end: int = -1  # log offset behind the last record, -1 without one
    queues: dict[Queue, list[Run]] = attrs.field(factory=dict)
    batches: dict[Queue, list[Run]] = attrs.field(factory=dict)
    index: IndexKeys = attrs.field(factory=IndexKeys)
    damages: list[LogDamage] = attrs.field(factory=list)

    def add_run(self, queue: Queue, start: int, packed: bytes | memoryview) -> None:
        """Add entries with consecutive queue offsets from *start* on."""
        count = len(packed) // ENTRY_BYTES
        runs = self.queues.get(queue)
        if runs is None:
            runs = self.queues[queue] = []
        if runs and runs[-1].end == start:
            runs[-1].entries += packed
            runs[-1].end += count
        else:
            runs.append(Run(start, bytearray(packed), start + count))
