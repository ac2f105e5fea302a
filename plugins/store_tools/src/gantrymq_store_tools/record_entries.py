"""Queue entries and index keys: of one log record, as dispatch writes them, and of one range of the log.

    kind of record                               entries
    prepared or rolled back                      none
    of a topic with queue.type=BatchCQ, or an    one batch entry for the whole record
    inner batch
    any other                                    one in its own queue, and one in each light queue that it lists
                                                 (see `model.light_queues`)

The entries of a range are plain values, because they are pickled and sent between processes. Index keys are kept as
columns: hash, log offset and store time of each key, in index order.

Source: apache/rocketmq store/.../DefaultMessageStore.java (CommitLogDispatcherBuildConsumeQueue),
queue/BatchConsumeQueue.java (putMessagePositionInfoWrapper).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import attrs

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import DispatchEntry
from gantrymq.plugin.model import LIGHT_QUEUE_ID, Queue
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_store_files.batch_entry import pack_batch_entry
from gantrymq_store_files.delay_levels import DelayLevels
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

__all__ = ["EntryRules", "RecordEntry", "record_entries"]

_MAX_BATCH = 32767
RecordEntry = tuple[bool, Queue, int, bytes]
"""Whether it is a batch entry, its queue, the queue offset of its first message, and the packed entry."""


@attrs.frozen
class EntryRules:
    """The inputs of entries besides the record. Small plain values, because they are sent to other processes."""

    delay_levels: DelayLevels = attrs.field(factory=DelayLevels.of)
    batch_topics: frozenset[str] = frozenset()  # queue.type=BatchCQ
    light_queues: bool = False  # enableMultiDispatch
    tag_keys: bool = False  # the index has an entry for each tag, as 5.5.0 writes it
    dropped: Mapping[str, int] = attrs.field(
        factory=dict
    )  # by topic: records before this log offset belong to a deleted topic


def record_entries(entry: DispatchEntry, rules: EntryRules) -> list[RecordEntry]:
    """Return the queue entries of the record of *entry*, that of its own queue first."""
    topic, queue_id, queue_offset, log_offset, size, code, store_timestamp, sys_flag, _, text = entry
    if sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT) or (
        rules.dropped and log_offset < rules.dropped.get(topic, 0)
    ):
        return []
    queue = Queue(topic, queue_id)
    if sys_flag & INNER_BATCH or topic in rules.batch_topics:
        properties = props.decode(text)
        base = _number(properties.get(props.INNER_BASE), queue_offset)
        count = _number(properties.get(props.INNER_NUM), 1)
        if base < 0 or not 0 < count <= _MAX_BATCH:
            return []
        return [(True, queue, base, pack_batch_entry(log_offset, size, code, store_timestamp, base, count))]
    packed = ENTRY.pack(log_offset, size, code)
    found: list[RecordEntry] = [(False, queue, queue_offset, packed)]
    if rules.light_queues:
        found += [(False, Queue(light, LIGHT_QUEUE_ID), offset, packed) for light, offset in entry.light_queue_offsets]
    return found


def _number(text: str | None, otherwise: int) -> int:
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        return otherwise


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
