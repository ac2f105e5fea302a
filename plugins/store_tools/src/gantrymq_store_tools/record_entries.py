"""The queue entries and index keys of a log record, as dispatch writes them.

    kind of record                               entries
    prepared or rolled back                      none
    of a topic with queue.type=BatchCQ, or an    one batch entry for the whole record
    inner batch
    any other                                    one in its own queue, and one in each light queue that it lists
                                                 (see `model.light_queues`)

Source: apache/rocketmq store/.../DefaultMessageStore.java (CommitLogDispatcherBuildConsumeQueue),
queue/BatchConsumeQueue.java (putMessagePositionInfoWrapper).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import DispatchEntry
from gantrymq.plugin.model import LIGHT_QUEUE_ID, Queue
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_store_files.batch_entry import pack_batch_entry
from gantrymq_store_files.delay_levels import DelayLevels
from gantrymq_store_files.queue_entry import ENTRY

__all__ = ["EntryRules", "RecordEntry", "record_entries"]

MAX_BATCH = 32767

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
        if base < 0 or not 0 < count <= MAX_BATCH:
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
