"""One row for each consumer group: members, lag, retries, dead letters, rate; for request 65023.

Computed in short steps, some 2 us for each committed offset. The store time of the oldest message that a group has not
consumed takes a read of the store for each queue with a lag, so it is added only to rows that are shown, or to all if
they are sorted by it; times that were read for the previous table are not read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from gantrymq.plugin import names
from gantrymq.plugin.interfaces import Broker, BrokerEnvironment, GroupLag, LagReading
from gantrymq.plugin.model import POPS, Queue
from gantrymq.plugin.names import DLQ_PREFIX, retry_topic
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.gather import BROADCASTING, retry_behind
from gantrymq_diagnosis.other_readers import OtherReaders
from gantrymq_diagnosis.pop_modes import POP, PopModes
from gantrymq_diagnosis.shared_table import INTERNAL, fields_json
from gantrymq_diagnosis.waiting_retries import WaitingRetries, waiting_retries
from gantrymq_diagnosis.watch import Watch

_QUEUES_TOGETHER: Final = 128  # queues between pauses
_MAX_TIMES: Final = 100_000  # store times kept for the next tables
_MAX_FIRSTS: Final = 64  # queues of a topic without an offset of the group whose first message is read

Place = tuple[str, int, int]  # topic, queue id, queue offset


@attrs.define
class GroupRow:
    """One group at this broker, with the fields of the response."""

    group: str
    system: bool
    consume_enable: bool
    members: int
    model: str | None  # CLUSTERING, BROADCASTING or POP; None: no member is online that says it
    behind: int | None = 0  # messages not consumed yet, without retry topics; None: not known
    deleted: int = 0  # messages that were deleted before the group consumed them
    late_ms: int | None = 0  # age of the oldest message not consumed, 0 without one; None: not known
    retry_behind: int = 0
    retry_waiting: int = 0
    dead_letters: int = 0
    consumed_per_s: float = 0.0  # messages delivered
    read_by_others: bool = False  # whether it is behind, has no member, and clients that are none read (`OtherReaders`)
    # First message not consumed of each queue with a lag, until `late_ms` is known.
    places: tuple[Place, ...] = attrs.field(default=(), metadata=INTERNAL)

    @property
    def name(self) -> str:
        """The group."""
        return self.group

    @property
    def searched(self) -> str:
        """The text to search in."""
        return self.group

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        # A number, because older tools expect one.
        return {**fields_json(self), "behind": self.behind or 0, "behind_known": self.behind is not None}


@attrs.frozen
class GroupTable:
    """The rows of groups."""

    rows: list[GroupRow]
    computed_ms: int  # wall time
    more_retries: bool  # whether more messages may wait for a retry than were counted


class StoredTimes:
    """Store times of messages, kept as long as two successive tables with times of all rows need them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before: dict[Place, int] = {}
        self._now: dict[Place, int] = {}

    def next_table(self, *, of_all: bool) -> None:
        """Forget the times that were not needed since the last table *of_all* rows.

        Tables whose times are read for rows that are shown only are made in between, and need few of them.
        """
        if of_all or len(self._now) >= _MAX_TIMES:
            self._before, self._now = self._now, {}

    def known(self, place: Place) -> int | None:
        """Return the store time of the message at *place* if this table or the one before needed it."""
        found = self._now.get(place)
        if found is None:
            found = self._before.get(place)
            if found is not None and len(self._now) < _MAX_TIMES:
                self._now[place] = found
        return found

    async def read(self, place: Place) -> int | None:
        """Read the store time of the message at *place*, which is not known; None if it cannot be read now."""
        topic, queue_id, queue_offset = place
        found = await self._broker.lags.stored_ms(Queue(topic, queue_id), queue_offset)
        if found is not None and len(self._now) < _MAX_TIMES:
            self._now[place] = found
        return found


async def group_table(broker: Broker, watch: Watch, modes: PopModes, only: Collection[str] | None = None) -> GroupTable:
    """Return a row for each group, or for those of *only* that exist, without `GroupRow.late_ms`."""
    waiting, more = await waiting_retries(broker)
    pop_groups = set[str]()
    for groups in (await modes.groups()).values():
        pop_groups |= groups
    reading, slices = broker.lags.reading(_QUEUES_TOGETHER), TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    rows, others = list[GroupRow](), None
    for name in sorted(broker.groups.view if only is None else only):
        config = broker.groups.get(name)
        if config is not None:  # not deleted meanwhile
            row = await _row(broker, watch, name, name in pop_groups, waiting, reading)
            row.consume_enable = config.consume_enable
            if config.consume_broadcast_enable and not row.members and not broker.offsets.topics_of(name):
                row.behind = row.late_ms = None  # it may broadcast: its members keep their offsets
            if row.behind and not row.members:
                others = others or await OtherReaders.of(broker)
                row.read_by_others = await others.reads(name, broker.lags.topics(name))
            rows.append(row)
        await slices.item_done()
    return GroupTable(rows, broker.world.clock.now_ms(), more)


async def add_times(table: GroupTable, rows: Iterable[GroupRow], times: StoredTimes, broker: BrokerEnvironment) -> None:
    """Set `GroupRow.late_ms` of rows of *table* that do not have it yet."""
    slices = TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    for row in rows:
        found = list[int]()
        for place in row.places:
            stored_ms = times.known(place)
            if stored_ms is None:
                stored_ms = await times.read(place)
            if stored_ms is not None:
                found.append(stored_ms)
            await slices.item_done()
        if row.places:
            row.late_ms = max(0, table.computed_ms - min(found)) if found else None
        row.places = ()


async def _row(
    broker: Broker,
    watch: Watch,
    group: str,
    popped: bool,
    waiting: Mapping[str, WaitingRetries],
    reading: LagReading,
) -> GroupRow:
    online = broker.clients.consumers(group)
    says = [said for each in online if (said := watch.says(group, each.connection)) is not None]
    model = says[-1].message_model if says else None
    if popped or any(each.consume_type == POPS for each in says):
        model = POP
    elif any(each.message_model == BROADCASTING for each in says):
        model = BROADCASTING
    system = group in names.SYSTEM_GROUPS or names.is_system_group(group)
    row = GroupRow(group, system, True, len(online), model)
    places, topics = list[Place](), broker.lags.topics(group)
    for topic in {*topics, *broker.offsets.topics_of(group)}:
        row.consumed_per_s += broker.metrics.got_per_s(topic, group)
    for topic in topics:
        lag = await reading.of(group, topic)
        row.behind = None if row.behind is None or lag.behind is None else row.behind + lag.behind
        row.deleted += lag.deleted
        places += _places(lag)
    row.places = tuple(places)
    if row.behind is None:
        row.late_ms, row.places = None, ()
    row.retry_behind = await retry_behind(broker, reading, group, topics)
    row.retry_waiting = waiting.get(retry_topic(group), WaitingRetries()).count
    row.dead_letters = (await reading.backlog(DLQ_PREFIX + group)).messages
    return row


def _places(lag: GroupLag) -> Iterator[Place]:
    """Return the first unread message of each queue; of at most _MAX_FIRSTS queues without a commit."""
    yield from ((lag.topic, queue_id, begin) for queue_id, begin in lag.unread.items())
    if lag.fresh:
        begins, ends = lag.backlog.begins, lag.backlog.ends
        fresh = (each for each, end in ends.items() if begins[each] < end and each not in lag.committed)
        yield from ((lag.topic, each, begins[each]) for each in islice(fresh, _MAX_FIRSTS))
