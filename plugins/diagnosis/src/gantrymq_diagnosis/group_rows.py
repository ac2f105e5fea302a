"""One row for each consumer group: members, lag, retries, dead letters, rate; for request 65023.

Computed in short steps, some 2 us for each committed offset. The store time of the oldest message that a group has not
consumed takes a read of the store for each queue with a lag, so it is added only to rows that are shown, or to all if
they are sorted by it; times that were read for the previous table are not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from gantrymq.interfaces import Broker
from gantrymq.model import names
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, pop_retry_topics, retry_topic
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices
from gantrymq_diagnosis.gather import BROADCASTING, POPS, behind, kept, stored_ms_of
from gantrymq_diagnosis.pop_modes import POP, PopModes
from gantrymq_diagnosis.waiting_retries import WaitingRetries, waiting_retries
from gantrymq_diagnosis.watch import Watch

__all__ = ["GroupRow", "GroupTable", "StoredTimes", "add_times", "group_table"]

QUEUES_TOGETHER: Final = 16  # queues between pauses
MAX_TIMES: Final = 100_000  # store times kept for the next table
MAX_FIRSTS: Final = 64  # queues of a topic without an offset of the group whose first message is read

Place = tuple[str, int, int]  # topic, queue id, queue offset


@attrs.define
class GroupRow:
    """One group at this broker."""

    name: str
    system: bool
    consume_enable: bool
    members: int
    model: str | None  # CLUSTERING, BROADCASTING or POP; None: no member is online that says it
    behind: int = 0  # messages not consumed yet, without retry topics
    places: tuple[Place, ...] = ()  # first message not consumed of each queue with a lag, until `late_ms` is known
    late_ms: int | None = 0  # age of the oldest message not consumed, 0 without one; None: not known
    retry_behind: int = 0
    retry_waiting: int = 0
    dead_letters: int = 0
    per_s: float = 0.0  # messages delivered

    @property
    def searched(self) -> str:
        """The text to search in."""
        return self.name

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        return {
            "group": self.name,
            "system": self.system,
            "consume_enable": self.consume_enable,
            "members": self.members,
            "model": self.model,
            "behind": self.behind,
            "late_ms": self.late_ms,
            "retry_behind": self.retry_behind,
            "retry_waiting": self.retry_waiting,
            "dead_letters": self.dead_letters,
            "consumed_per_s": round(self.per_s, 3),
        }


@attrs.frozen
class GroupTable:
    """The rows of all groups."""

    rows: list[GroupRow]
    computed_ms: int  # wall time
    more_retries: bool  # whether more messages may wait for a retry than were counted


class StoredTimes:
    """Store times of messages, kept as long as two successive tables need them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before: dict[Place, int] = {}
        self._now: dict[Place, int] = {}

    def next_table(self) -> None:
        """Forget the times that the last table did not need."""
        self._before, self._now = self._now, {}

    def known(self, place: Place) -> int | None:
        """Return the store time of the message at *place* if this table or the one before needed it."""
        found = self._now.get(place)
        if found is None:
            found = self._before.get(place)
            if found is not None and len(self._now) < MAX_TIMES:
                self._now[place] = found
        return found

    async def get(self, place: Place) -> int | None:
        """Return the store time of the message at *place*, None if it cannot be read."""
        found = self.known(place)
        if found is None:  # unreadable ones may have become readable
            topic, queue_id, queue_offset = place
            found = await stored_ms_of(self._broker, Queue(topic, queue_id), queue_offset)
            if found is not None and len(self._now) < MAX_TIMES:
                self._now[place] = found
        return found


async def group_table(broker: Broker, watch: Watch, modes: PopModes) -> GroupTable:
    """Return a row for each group, without `GroupRow.late_ms`."""
    waiting, more = await waiting_retries(broker)
    pop_groups = set[str]()
    for groups in (await modes.groups()).values():
        pop_groups |= groups
    lags = _Lags(broker)
    rows = list[GroupRow]()
    for name in sorted(broker.groups.view):
        config = broker.groups.get(name)
        if config is not None:  # not deleted meanwhile
            row = await _row(broker, watch, name, name in pop_groups, waiting, lags)
            row.consume_enable = config.consume_enable
            if config.consume_broadcast_enable and not row.members and not broker.offsets.topics_of(name):
                row.late_ms = None  # it may broadcast: its members keep their offsets
            rows.append(row)
    return GroupTable(rows, broker.world.clock.now_ms(), more)


async def add_times(table: GroupTable, rows: Iterable[GroupRow], times: StoredTimes, broker: Broker) -> None:
    """Set `GroupRow.late_ms` of rows of *table* that do not have it yet."""
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    for row in rows:
        found = list[int]()
        for place in row.places:
            stored_ms = times.known(place)
            if stored_ms is None:
                stored_ms = await times.get(place)
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
    lags: _Lags,
) -> GroupRow:
    online = broker.clients.consumers(group)
    says = [said for each in online if (said := watch.says(group, each.connection)) is not None]
    broadcasting = any(each.message_model == BROADCASTING for each in says)
    model = says[-1].message_model if says else None
    if popped or any(each.consume_type == POPS for each in says):
        model = POP
    elif broadcasting:
        model = BROADCASTING
    system = group in names.SYSTEM_GROUPS or names.is_system_group(group)
    row = GroupRow(group, system, True, len(online), model)
    wanted = {topic for each in says for topic in each.wants}
    places = list[Place]()
    for topic in {**dict.fromkeys(broker.offsets.topics_of(group)), **dict.fromkeys(wanted)}:
        row.per_s += broker.metrics.got_per_s(topic, group)
        if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            row.behind += await lags.add(group, topic, broadcasting, places)
            row.retry_behind += sum(behind(broker, group, each) for each in pop_retry_topics(group, topic))
    row.places = tuple(places)
    row.retry_behind += behind(broker, group, retry_topic(group))
    row.retry_waiting = waiting.get(retry_topic(group), WaitingRetries()).count
    row.dead_letters = kept(broker, DLQ_PREFIX + group)
    await lags.slices.item_done()
    return row


@attrs.frozen
class _Queues:
    """The queues with messages of one topic."""

    read_queues: int
    bounds: Mapping[int, tuple[int, int]]  # first offset and end; the garbage collector ignores such tuples
    kept: int  # messages in the read queues
    firsts: Sequence[Place]  # first message of each read queue


class _Lags:
    """Lags of groups on topics; the bounds of a topic's queues are read once for all groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics: dict[str, _Queues] = {}
        self.slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)

    async def add(self, group: str, topic: str, broadcasting: bool, places: list[Place]) -> int:
        """Return the lag of a group on one topic, and add the places of its oldest messages."""
        queues = await self._queues(topic)
        committed = self._broker.offsets.of_group(topic, group)
        if broadcasting:  # its members keep their offsets
            committed = dict(committed)
            for queue_id in range(queues.read_queues):
                next_offset = self._broker.offsets.last_pull(group, Queue(topic, queue_id)).next_offset
                if next_offset >= 0:
                    committed.setdefault(queue_id, next_offset)
                await self.slices.item_done()
        count, unread = queues.kept, len(queues.firsts)  # unread: queues without an offset of the group
        for queue_id, queue_offset in committed.items():
            bounds = queues.bounds.get(queue_id)
            if bounds is not None:
                min_offset, max_offset = bounds
                if queue_id < queues.read_queues:
                    count, unread = count - (max_offset - min_offset), unread - 1
                begin = max(queue_offset, min_offset)
                if max_offset > begin:
                    count += max_offset - begin
                    places.append((topic, queue_id, begin))
            await self.slices.item_done()
        if unread:
            places += islice((each for each in queues.firsts if each[1] not in committed), MAX_FIRSTS)
        return count

    async def _queues(self, topic: str) -> _Queues:
        known = self._topics.get(topic)
        if known is not None:
            return known
        config = self._broker.topics.get(topic)
        read_queues, all_queues = (0, 0) if config is None else (config.read_queues, config.write_queues)
        found: dict[int, tuple[int, int]] = {}
        firsts, kept_messages = list[Place](), 0
        for queue_id in range(max(read_queues, all_queues)):
            min_offset, max_offset = self._broker.store.bounds(Queue(topic, queue_id))
            if max_offset > min_offset:
                found[queue_id] = (min_offset, max_offset)
                if queue_id < read_queues:
                    firsts.append((topic, queue_id, min_offset))
                    kept_messages += max_offset - min_offset
            await self.slices.item_done()
        known = self._topics[topic] = _Queues(read_queues, found, kept_messages, firsts)
        return known
