"""Consumer lag: of each group on each topic, and the largest lags of single queues.

The lag of a group on a topic is summed over the topic's read queues: from the committed offset (without one, from the
first message kept) to the end of the queue. A group without any commit on a topic is not reported for it, nor is a
deleted group that left its offsets. Queues without a commit are not visited one by one for each group, because a topic
may have thousands.

Objects exist by topic, and by topic and group; figures by queue are in tables of integers, which the garbage collector
does not visit.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import attrs

from gantrymq.interfaces import Bounds, Broker
from gantrymq.model.names import is_system_group
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices
from gantrymq_metrics.oldest_messages import OldestMessages, Pair
from gantrymq_metrics.queue_lags import QueueLags

QUEUES_TOGETHER = 200  # queues before the event loop is yielded
_ANY_GROUP = ""  # in a Pair: every group without a commit in the queue


class Backlog:
    """The messages kept in the read queues of one topic."""

    def __init__(self, topic: str, read_queues: int) -> None:
        self.topic = topic
        self.begins: dict[int, int] = {}  # first queue offset by queue id, of queues that are not empty
        self.ends: dict[int, int] = {}
        self.messages = 0
        self._read_queues = read_queues
        self._by_age: list[tuple[int, int]] | None = None

    def add(self, queue_id: int, bounds: Bounds) -> None:
        """Add a queue."""
        begin, end = bounds
        if queue_id < self._read_queues and begin < end:
            self.begins[queue_id], self.ends[queue_id] = begin, end
            self.messages += end - begin

    @cached_property
    def largest_first(self) -> list[tuple[int, int]]:
        """Messages and queue id of all queues."""
        return sorted(((self.ends[each] - begin, each) for each, begin in self.begins.items()), reverse=True)

    def oldest_first(self, oldest: OldestMessages) -> Iterator[tuple[int, int]]:
        """Iterate over store time of the first message and queue id, of queues where it is known."""
        if self._by_age is None:
            stored = oldest.stored_ms((self.topic, _ANY_GROUP))
            self._by_age = sorted((stored[queue_id], queue_id) for queue_id in self.begins if queue_id in stored)
        return iter(self._by_age)


@attrs.define
class ConsumerLag:
    """Lag of one group on one topic."""

    topic: str
    group: str
    committed: int  # sum of queue offsets
    lag: int  # messages
    in_flight: int = 0  # how many of these were pulled
    lag_ms: int = 0  # age of the oldest of them; 0 if there is none or it cannot be read


def group_exists(broker: Broker, group: str) -> bool:
    """Return whether the broker has a group or uses it itself."""
    return is_system_group(group) or broker.groups.get(group) is not None


class GroupLags:
    """Reads the lag of all groups for one scrape."""

    def __init__(self, broker: Broker, oldest: OldestMessages, queue_lags: QueueLags) -> None:
        self._broker = broker
        self._oldest = oldest
        self._queue_lags = queue_lags
        self._wanted: dict[Pair, dict[int, int]] = {}  # queue offset of the oldest unconsumed message by queue id
        self._partial: dict[Pair, Backlog] = {}  # groups without a commit in some queues
        self._slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)

    async def read(self, backlogs: Mapping[str, Backlog]) -> list[ConsumerLag]:
        """Return the lag of all groups on topics that exist: about 3 us for each committed offset."""
        broker, lags = self._broker, []
        for pair, offsets in broker.metrics.committed():
            config = broker.topics.get(pair[0])
            if config is not None and group_exists(broker, pair[1]):
                backlog = backlogs.get(pair[0]) or Backlog(pair[0], config.read_queues)
                lags.append(await self._lag(pair, tuple(offsets.items()), backlog))
            await self._slices.item_done()
        await self._oldest.read(broker, self._wanted)
        now_ms = broker.world.clock.now_ms()
        for lag in lags:
            pair = lag.topic, lag.group
            stored = [*self._oldest.stored_ms(pair).values(), *self._oldest_without_commit(pair)]
            lag.lag_ms = max(0, now_ms - min(stored, default=now_ms))
            await self._slices.item_done()
        return lags

    async def _lag(self, pair: Pair, offsets: tuple[tuple[int, int], ...], backlog: Backlog) -> ConsumerLag:
        topic, group = pair
        found = ConsumerLag(topic, group, sum(offset for _, offset in offsets), backlog.messages)
        begins, ends, behind, known = backlog.begins, backlog.ends, dict[int, int](), set[int]()
        for queue_id, offset in offsets:
            first = begins.get(queue_id)
            if first is None:
                continue
            known.add(queue_id)
            end = ends[queue_id]
            begin = min(max(offset, first), end)
            found.lag -= begin - first
            self._queue_lags.offer(pair, queue_id, end - begin)
            if begin < end:
                behind[queue_id] = begin
                pulled = self._broker.offsets.last_pull(group, Queue(topic, queue_id)).next_offset
                found.in_flight += max(0, min(pulled, end) - begin)
            await self._slices.item_done()
        if behind:
            self._wanted[pair] = behind
        if len(known) < len(begins):
            await self._without_commit(pair, known, backlog)
        return found

    async def _without_commit(self, pair: Pair, known: set[int], backlog: Backlog) -> None:
        """Offer the queues without a commit, and have their first messages read once for all groups."""
        self._partial[pair] = backlog
        self._wanted[backlog.topic, _ANY_GROUP] = backlog.begins
        for lag, queue_id in backlog.largest_first:
            if not self._queue_lags.may_choose(pair, lag):
                break
            if queue_id not in known:
                self._queue_lags.offer(pair, queue_id, lag)
            await self._slices.item_done()

    def _oldest_without_commit(self, pair: Pair) -> list[int]:
        """Return the store time of the oldest message in queues where the group has no commit."""
        topic, group = pair
        if pair in self._partial:
            for stored_ms, queue_id in self._partial[pair].oldest_first(self._oldest):
                if self._broker.offsets.committed(group, Queue(topic, queue_id)) is None:
                    return [stored_ms]
        return []
