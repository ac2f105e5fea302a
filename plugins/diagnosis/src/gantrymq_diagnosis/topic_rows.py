"""One row for each topic: queues, messages, rates, groups; for request 65025.

Computed in short steps, some 2 us for each queue. The store time of the newest message takes a read of the store for
each queue that has changed, so it is added only to rows that are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import Broker, BrokerEnvironment, BrokerStorage
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.group_rows import StoredTimes

__all__ = ["KINDS", "TopicRow", "TopicTable", "add_newest", "topic_table"]

QUEUES_TOGETHER: Final = 16  # queues between pauses
KINDS: Final = ("normal", "retry", "dead_letter", "system")
MESSAGE_TYPE: Final = "message.type"


@attrs.define
class TopicRow:
    """One topic at this broker."""

    config: TopicConfig
    kind: str  # of KINDS
    min_sum: int = 0  # of the minimum offsets of all queues
    max_sum: int = 0
    put_per_s: float = 0.0
    got_per_s: float = 0.0
    groups: int = 0  # with committed offsets
    newest_ms: int | None = None  # store time of the newest message

    @property
    def name(self) -> str:
        """The topic."""
        return self.config.name

    @property
    def message_type(self) -> str:
        """The type of its messages, empty if it is not known."""
        return self.config.attributes.get(MESSAGE_TYPE, "")

    @property
    def kept(self) -> int:
        """Number of messages."""
        return self.max_sum - self.min_sum

    @property
    def searched(self) -> str:
        """The text to search in."""
        return self.name

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        return {
            "topic": self.name,
            "kind": self.kind,
            "message_type": self.message_type,
            "perm": self.config.perm,
            "read_queues": self.config.read_queues,
            "write_queues": self.config.write_queues,
            "min_sum": self.min_sum,
            "max_sum": self.max_sum,
            "kept": self.kept,
            "put_per_s": round(self.put_per_s, 3),
            "got_per_s": round(self.got_per_s, 3),
            "groups": self.groups,
            "newest_ms": self.newest_ms,
        }


@attrs.frozen
class TopicTable:
    """The rows of all topics."""

    rows: list[TopicRow]
    computed_ms: int  # wall time


async def topic_table(broker: Broker) -> TopicTable:
    """Return a row for each topic, without `TopicRow.newest_ms`."""
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    rows = list[TopicRow]()
    for name in sorted(broker.topics.view):
        config = broker.topics.get(name)
        if config is None:  # deleted meanwhile
            continue
        row = TopicRow(config, _kind(broker, name))
        for queue_id in range(_queues(config)):
            bounds = broker.store.bounds(Queue(name, queue_id))
            row.min_sum += bounds.min_offset
            row.max_sum += bounds.max_offset
            await slices.item_done()
        row.put_per_s = broker.metrics.put_per_s(name)
        row.got_per_s = broker.metrics.got_per_s(name)
        row.groups = len(broker.offsets.groups_of(name))
        rows.append(row)
        await slices.item_done()
    return TopicTable(rows, broker.world.clock.now_ms())


async def add_newest(rows: Iterable[TopicRow], times: StoredTimes, broker: BrokerStorage) -> None:
    """Set `TopicRow.newest_ms` of topics that have messages, unless it is known."""
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    for row in rows:
        for queue_id in range(_queues(row.config) if row.newest_ms is None else 0):
            bounds = broker.store.bounds(Queue(row.name, queue_id))
            if bounds.max_offset > bounds.min_offset:
                stored_ms = await times.get((row.name, queue_id, bounds.max_offset - 1))
                if stored_ms is not None:
                    row.newest_ms = max(row.newest_ms or 0, stored_ms)
            await slices.item_done()


def _queues(config: TopicConfig) -> int:
    return max(config.read_queues, config.write_queues)


def _kind(broker: BrokerEnvironment, name: str) -> str:
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "dead_letter"
    return "system" if broker.topics.is_own(name) else "normal"
