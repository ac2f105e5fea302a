"""Consumer lag in one scrape: of each group on each topic, and the largest lags of single queues.

`gantrymq.interfaces.Lags` computes the lags. Reported are topics with a commit of the group, and those that an online
group subscribes to; not a deleted group that left its offsets, nor a group whose lag is not known. Queues without a
commit are not visited one by one for each group, because a topic may have thousands.

Objects exist by topic, and by topic and group; figures by queue are in tables of integers, which the garbage collector
does not visit.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import attrs

from gantrymq.plugin.interfaces import Backlog, Broker, BrokerConsumers, GroupLag, LagReading
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import RETRY_PREFIX, is_system_group
from gantrymq.plugin.world import TimeSlices
from gantrymq_metrics.oldest_messages import OldestMessages, Pair
from gantrymq_metrics.queue_lags import QueueLags

QUEUES_TOGETHER = 200  # queues before the event loop is yielded
_ANY_GROUP = ""  # in a Pair: every group without a commit in the queue


@attrs.define
class ConsumerLag:
    """Lag of one group on one topic."""

    topic: str
    group: str
    committed: int  # sum of queue offsets
    lag: int | None  # messages; None: not known
    in_flight: int = 0  # how many of these were pulled
    lag_ms: int = 0  # age of the oldest of them; 0 if there is none or it cannot be read
    deleted: int = 0  # messages that were deleted before the group consumed them, since the first scrape


def group_exists(broker: BrokerConsumers, group: str) -> bool:
    """Return whether the broker has a group or uses it itself."""
    return is_system_group(group) or broker.groups.get(group) is not None


class DeletedUnread:
    """Counts the messages that were deleted before groups consumed them, from one scrape to the next."""

    def __init__(self) -> None:
        self._counted: dict[Pair, dict[int, int]] = {}  # queue offset up to which they are counted, by queue id
        self._totals: dict[Pair, int] = {}

    def total(self, lag: GroupLag) -> int:
        """Return the number of messages until now."""
        pair = lag.topic, lag.group
        if lag.deleted:
            counted = self._counted.setdefault(pair, {})
            for queue_id, committed in lag.committed.items():
                first = lag.backlog.begins.get(queue_id, 0)
                if committed < first:
                    new = first - max(committed, counted.get(queue_id, 0))
                    self._totals[pair] = self._totals.get(pair, 0) + max(0, new)
                    counted[queue_id] = first
        return self._totals.get(pair, 0)

    def forget_others(self, pairs: Container[Pair]) -> None:
        """Forget all topics and groups but *pairs*."""
        for table in (self._counted, self._totals):
            for pair in [each for each in table if each not in pairs]:
                del table[pair]


class _Sorted:
    """The queues of a topic with messages, in the orders that groups without commits in them need."""

    def __init__(self, backlog: Backlog) -> None:
        begins, ends = backlog.begins, backlog.ends
        self.firsts = {each: begin for each, begin in begins.items() if begin < ends[each]}
        self.largest_first = sorted(((ends[each] - begin, each) for each, begin in self.firsts.items()), reverse=True)
        self._by_age: list[tuple[int, int]] | None = None

    def oldest_first(self, topic: str, oldest: OldestMessages) -> Iterator[tuple[int, int]]:
        """Iterate over store time of the first message and queue id, of queues where it is known."""
        if self._by_age is None:
            stored = oldest.stored_ms((topic, _ANY_GROUP))
            self._by_age = sorted((stored[queue_id], queue_id) for queue_id in self.firsts if queue_id in stored)
        return iter(self._by_age)


class GroupLags:
    """Reads the lag of all groups for one scrape."""

    def __init__(self, broker: Broker, oldest: OldestMessages, queue_lags: QueueLags, deleted: DeletedUnread) -> None:
        self._broker = broker
        self._oldest = oldest
        self._queue_lags = queue_lags
        self._deleted = deleted
        self._wanted: dict[Pair, dict[int, int]] = {}  # queue offset of the oldest unconsumed message by queue id
        self._partial: dict[Pair, _Sorted] = {}  # groups without a commit in some queues
        self._sorted: dict[str, _Sorted] = {}
        self._slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)

    async def read(self, reading: LagReading) -> list[ConsumerLag]:
        """Return the lag of all groups on topics that exist: about 3 us for each committed offset."""
        broker, lags = self._broker, []
        pairs = await self._pairs()
        for topic, group in pairs:
            if broker.topics.get(topic) is not None and group_exists(broker, group):
                lags.append(await self._lag(await reading.of(group, topic)))
            await self._slices.item_done()
        await self._oldest.read(broker, self._wanted)
        now_ms = broker.world.clock.now_ms()
        for lag in lags:
            pair = lag.topic, lag.group
            stored = [*self._oldest.stored_ms(pair).values(), *self._oldest_without_commit(pair)]
            lag.lag_ms = max(0, now_ms - min(stored, default=now_ms))
            await self._slices.item_done()
        self._deleted.forget_others(pairs)
        return lags

    async def _pairs(self) -> dict[Pair, None]:
        """Return the pairs of topic and group with a commit or an online subscription."""
        found: dict[Pair, None] = {}
        for pair, _ in self._broker.metrics.committed():
            found[pair] = None
            await self._slices.item_done()
        for group in tuple(self._broker.groups.view):
            if self._broker.clients.consumers(group):
                found.update(dict.fromkeys((topic, group) for topic in self._broker.lags.topics(group)))
            await self._slices.item_done()
        return found

    async def _lag(self, lag: GroupLag) -> ConsumerLag:
        topic, group = pair = lag.topic, lag.group
        found = ConsumerLag(topic, group, sum(lag.committed.values()), lag.behind)
        if lag.behind is None or not (topic.startswith(RETRY_PREFIX) or self._broker.lags.follows(group, topic)):
            return found
        found.deleted = self._deleted.total(lag)
        for queue_id in lag.committed:
            end = lag.backlog.ends.get(queue_id)
            if end is None:
                continue
            begin = lag.unread.get(queue_id, end)
            self._queue_lags.offer(pair, queue_id, end - begin)
            if begin < end:
                pulled = self._broker.offsets.last_pull(group, Queue(topic, queue_id)).next_offset
                found.in_flight += max(0, min(pulled, end) - begin)
            await self._slices.item_done()
        if lag.unread:
            self._wanted[pair] = lag.unread
        if lag.fresh:
            await self._without_commit(pair, lag)
        return found

    async def _without_commit(self, pair: Pair, lag: GroupLag) -> None:
        """Offer the queues without a commit, and have their first messages read once for all groups."""
        topic = lag.topic
        ordered = self._sorted.get(topic)
        if ordered is None:
            ordered = self._sorted[topic] = _Sorted(lag.backlog)
        self._partial[pair] = ordered
        self._wanted[topic, _ANY_GROUP] = ordered.firsts
        for count, queue_id in ordered.largest_first:
            if not self._queue_lags.may_choose(pair, count):
                break
            if queue_id not in lag.committed:
                self._queue_lags.offer(pair, queue_id, count)
            await self._slices.item_done()

    def _oldest_without_commit(self, pair: Pair) -> list[int]:
        """Return the store time of the oldest message in queues where the group has no commit."""
        topic, group = pair
        if pair in self._partial:
            for stored_ms, queue_id in self._partial[pair].oldest_first(topic, self._oldest):
                if self._broker.offsets.committed(group, Queue(topic, queue_id)) is None:
                    return [stored_ms]
        return []
