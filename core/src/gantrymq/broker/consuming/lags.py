"""Lag of consumer groups (`gantrymq.interfaces.Lags`): the one place that computes it.

An offset is clamped to the messages that exist: a commit before the first message of its queue counts from there, and
the difference as deleted. Queues that a reduction of their number has hidden, and topics that a group has left, count
as read, as nothing will be read from them. So do the queues of a parent topic for its groups of lite topics, which read
light queues.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from gantrymq.broker.consuming.query import store_time_at
from gantrymq.broker.tables import Tables
from gantrymq.errors import GantryError
from gantrymq.interfaces import Backlog, GroupLag, MessageStore, QueueLag
from gantrymq.model.group import lite_parent_of
from gantrymq.model.light_queues import is_lite_queue_of
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.world.clock import Clock, TimeSlices

_QUEUES_UNPAUSED: Final = 64  # without reading the clock


class GroupLags:
    """Computes lags of one broker."""

    def __init__(self, store: MessageStore, tables: Tables, clock: Clock) -> None:
        self._store = store
        self._topics, self._offsets, self._clients = tables.topics, tables.offsets, tables.clients
        self._groups = tables.groups
        self._clock = clock
        self._lite_subscriptions: Callable[[str], Collection[str]] | None = None

    def read_lite(self, subscriptions: Callable[[str], Collection[str]] | None) -> None:
        """Ask *subscriptions* for the light queues that a group is subscribed to; None: they are not known any more."""
        self._lite_subscriptions = subscriptions

    def lite_subscriptions(self, group: str) -> Collection[str] | None:
        """Return the light queues that a group is subscribed to, None: not known here."""
        return None if self._lite_subscriptions is None else self._lite_subscriptions(group)

    def follows(self, group: str, topic: str) -> bool:
        """Return False if the members of an online group do not subscribe to the topic."""
        if parent := self._lite_parent(group):
            return is_lite_queue_of(parent, topic)
        online = self._clients.consumer_group(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    def topics(self, group: str) -> list[str]:
        """Return the existing topics that a group reads."""
        online = self._clients.consumer_group(group)
        subscribed: Collection[str] = () if online is None else online.subscriptions
        if self._lite_parent(group):
            subscribed = self.lite_subscriptions(group) or ()
        return [
            topic
            for topic in dict.fromkeys((*self._offsets.topics_of(group), *subscribed))
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
            and self._topics.get(topic) is not None
            and self.follows(group, topic)
        ]

    def queue(self, group: str, queue: Queue) -> QueueLag:
        """Return the lag of a group in one queue."""
        bounds, committed = self._store.bounds(queue), self._offsets.committed(group, queue)
        begin, deleted = _begin(committed, *bounds)
        topic = self._topics.get(queue.topic)
        if not self._reads(group, queue.topic) or topic is None or queue.queue_id >= topic.read_queues:
            return QueueLag(bounds, committed, begin, 0, 0)
        if not self._is_known(group, queue.topic):
            return QueueLag(bounds, committed, begin, None, 0)
        return QueueLag(bounds, committed, begin, bounds.max_offset - begin, deleted)

    def reading(self, queues_together: int) -> _Reading:
        """Start a look at many groups."""
        return _Reading(self, queues_together)

    async def stored_ms(self, queue: Queue, queue_offset: int) -> int | None:
        """Return the store time of a message, None if it cannot be read."""
        try:
            found = await store_time_at(self._store, queue, queue_offset)
        except GantryError:
            return None
        return found if found >= 0 else None

    def _lite_parent(self, group: str) -> str:
        return lite_parent_of(self._groups.get(group))

    def _reads(self, group: str, topic: str) -> bool:
        return topic.startswith(RETRY_PREFIX) or self.follows(group, topic)

    def _is_known(self, group: str, topic: str) -> bool:
        return topic.startswith(RETRY_PREFIX) or not self._clients.broadcasts(group)


class _Reading:
    """One look at many groups."""

    def __init__(self, lags: GroupLags, queues_together: int) -> None:
        self._lags = lags
        self._slices = TimeSlices(lags._clock, queues_together)
        self._backlogs: dict[str, Backlog] = {}

    async def backlog(self, topic: str) -> Backlog:
        """Return the messages of a topic."""
        known = self._backlogs.get(topic)
        if known is not None:
            return known
        found, config = Backlog(topic), self._lags._topics.get(topic)
        read_queues = 0 if config is None else config.read_queues
        for queue_id in range(0 if config is None else max(read_queues, config.write_queues)):
            begin, end = self._lags._store.bounds(Queue(topic, queue_id))
            found.kept += end - begin
            found.end += end
            if end and queue_id < read_queues:
                found.begins[queue_id], found.ends[queue_id] = begin, end
                found.messages += end - begin
                found.filled += begin < end
            await self._slices.item_done()
        self._backlogs[topic] = found
        return found

    async def of(self, group: str, topic: str) -> GroupLag:
        """Return the lag of a group on a topic."""
        backlog, lags = await self.backlog(topic), self._lags
        found = GroupLag(topic, group, backlog, lags._offsets.of_group(topic, group))
        if not lags._reads(group, topic):
            return found
        if not lags._is_known(group, topic):
            found.behind = None
            return found
        begins, ends, behind, found.fresh = backlog.begins, backlog.ends, backlog.messages, backlog.filled
        unpaused = 0
        for queue_id, committed in found.committed.items():
            first = begins.get(queue_id)
            if first is not None:
                end = ends[queue_id]
                begin, deleted = _begin(committed, first, end)
                behind -= begin - first
                found.fresh -= first < end
                found.deleted += deleted
                if begin < end:
                    found.unread[queue_id] = begin
            unpaused += 1
            if unpaused == _QUEUES_UNPAUSED:
                await self._slices.item_done(unpaused)
                unpaused = 0
        await self._slices.item_done(unpaused)
        found.behind = behind
        return found


def _begin(committed: int | None, first: int, end: int) -> tuple[int, int]:
    """Return the first message that a group has not consumed, and the number of deleted ones before it."""
    if committed is None or committed < first:
        return first, 0 if committed is None else first - committed
    return min(committed, end), 0
