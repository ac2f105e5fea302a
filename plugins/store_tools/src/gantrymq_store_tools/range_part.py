"""The queue entries and index keys derived from one range of the log, as plain values.

Parts are pickled and sent between processes. Index keys are kept as columns: hash, log offset and store time of each
key, in index order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import attrs

from gantrymq.plugin.model import Queue
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY_BYTES


@attrs.define
class Run:
    """Entries of one queue with consecutive queue offsets. Each batch entry is a separate run."""

    start: int  # queue offset of the first entry
    entries: bytearray  # in file format
    end: int  # queue offset after the last entry


@attrs.define
class IndexKeys:
    """Keys in index order."""

    hashes: array[int] = attrs.field(factory=lambda: array("i"))
    log_offsets: array[int] = attrs.field(factory=lambda: array("q"))
    timestamps: array[int] = attrs.field(factory=lambda: array("q"))
    tags: array[int] = attrs.field(factory=lambda: array("b"))  # 1: the key of a tag, which only some brokers write

    def add(self, hashes: Sequence[int], log_offsets: Sequence[int], timestamps: Sequence[int], tags: bytes) -> None:
        """Append keys, given as columns of equal length."""
        self.hashes.extend(hashes)
        self.log_offsets.extend(log_offsets)
        self.timestamps.extend(timestamps)
        self.tags.frombytes(tags)

    def extend(self, more: IndexKeys) -> None:
        """Append *more*."""
        self.hashes.extend(more.hashes)
        self.log_offsets.extend(more.log_offsets)
        self.timestamps.extend(more.timestamps)
        self.tags.extend(more.tags)


@attrs.define
class RangePart:
    """The content of one range of the log."""

    start: int  # log offset where reading started
    end: int  # log offset after the last record, blank or damage; the next range starts here
    zeros_from: int = -1  # only zeros from here to the end; -1 if the range does not end in zeros
    records: int = 0
    record_bytes: int = 0
    first_timestamp: int = 0  # ms, the first record's store time; 0 without records
    last_timestamp: int = 0  # ms, the largest store time
    records_end: int = -1  # log offset of the end of the last record, -1 without one
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
