"""One row for each topic: queues, messages, rates, groups; for request 65025.

Computed in short steps, some 2 us for each queue. The store time of the newest message takes a read of the store for
each queue that has changed, so it is added only to rows that are shown: of the messages that the table counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import Broker, BrokerEnvironment
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.group_rows import StoredTimes
from gantrymq_diagnosis.shared_table import INTERNAL, fields_json

_QUEUES_TOGETHER: Final = 128  # queues between pauses
KINDS: Final = ("normal", "retry", "dead_letter", "system")
_MESSAGE_TYPE: Final = "message.type"


@attrs.define
class TopicRow:
    """One topic at this broker, with the fields of the response."""

    topic: str
    kind: str  # of KINDS
    message_type: str  # empty if it is not known
    perm: int
    read_queues: int
    write_queues: int
    min_sum: int = 0  # of the minimum offsets of all queues
    max_sum: int = 0
    kept: int = 0  # messages: the difference
    put_per_s: float = 0.0
    got_per_s: float = 0.0
    groups: int = 0  # with committed offsets
    newest_ms: int | None = None  # store time of the newest message
    lasts: tuple[int, ...] = attrs.field(default=(), metadata=INTERNAL)  # last offset of each queue, -1 without one

    @property
    def name(self) -> str:
        """The topic."""
        return self.topic

    @property
    def searched(self) -> str:
        """The text to search in."""
        return self.topic

    @property
    def queues(self) -> int:
        """Number of queues with messages to read or to write."""
        return max(self.read_queues, self.write_queues)

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        return fields_json(self)


@attrs.frozen
class TopicTable:
    """The rows of topics."""

    rows: list[TopicRow]
    computed_ms: int  # wall time


async def topic_table(broker: Broker, only: Collection[str] | None = None) -> TopicTable:
    """Return a row for each topic, or for those of *only* that exist, without `TopicRow.newest_ms`."""
    slices = TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    rows = list[TopicRow]()
    for name in sorted(broker.topics.view if only is None else only):
        config = broker.topics.get(name)
        if config is None:  # deleted meanwhile
            continue
        message_type = config.attributes.get(_MESSAGE_TYPE, "")
        row = TopicRow(name, _kind(broker, name), message_type, config.perm, config.read_queues, config.write_queues)
        lasts = list[int]()
        for queue_id in range(row.queues):
            bounds = broker.store.bounds(Queue(name, queue_id))
            row.min_sum += bounds.min_offset
            row.max_sum += bounds.max_offset
            lasts.append(bounds.max_offset - 1 if bounds.max_offset > bounds.min_offset else -1)
            await slices.item_done()
        row.lasts = tuple(lasts)
        row.kept = row.max_sum - row.min_sum
        row.put_per_s = broker.metrics.put_per_s(name)
        row.got_per_s = broker.metrics.got_per_s(name)
        row.groups = len(broker.offsets.groups_of(name))
        rows.append(row)
        await slices.item_done()
    return TopicTable(rows, broker.world.clock.now_ms())


async def add_newest(rows: Iterable[TopicRow], times: StoredTimes, broker: BrokerEnvironment) -> None:
    """Set `TopicRow.newest_ms` of topics that have messages, unless it is known."""
    slices = TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    for row in rows:
        for queue_id, last in enumerate(row.lasts if row.newest_ms is None else ()):
            if last >= 0:
                place = (row.name, queue_id, last)
                stored_ms = times.known(place)
                if stored_ms is None:
                    stored_ms = await times.read(place)
                if stored_ms is not None:
                    row.newest_ms = max(row.newest_ms or 0, stored_ms)
            await slices.item_done()


def _kind(broker: BrokerEnvironment, name: str) -> str:
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "dead_letter"
    return "system" if broker.topics.is_own(name) else "normal"
