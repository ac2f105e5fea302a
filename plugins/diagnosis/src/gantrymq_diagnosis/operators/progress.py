"""Consumption progress of groups: 208, 317 (statistics), 303 (times), 308 (lowest offsets), 314 (copy to a group).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats, fetchAllConsumeStatsInBroker,
queryConsumeTimeSpan, queryCorrectionOffset, cloneGroupOffset), broker/.../offset/ConsumerOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Any

import attrs

from gantrymq.errors import TopicNotExist
from gantrymq.plugin.headers import (
    CloneGroupOffsetRequest,
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
)
from gantrymq.plugin.interfaces import QueueLag
from gantrymq.plugin.loose_json import Entries, Items, RawJson
from gantrymq.plugin.model import Action, Queue, Requirement, TopicConfig, lite_parent_of, requirements
from gantrymq.plugin.remoting import Command, Connection, RequestCode, queue_texts, response_to, serves
from gantrymq_diagnosis.operators.requests import BrokerRequests

_ITEMS_TOGETHER = 16  # items of a long list to process without yielding
_NO_LONGER_THERE = (1 << 63) - 1  # Long.MAX_VALUE: the compared group has a lower offset than all others


def _named_topics(header: GetConsumeStatsRequest) -> list[str]:
    return [each for each in (header.topic, *(header.topic_list or "").split(";")) if each]


def _group_and_topics(asked: Command) -> Sequence[Requirement]:
    """Access rule of 208."""
    header = GetConsumeStatsRequest.from_ext(asked.ext)
    return requirements(Action.GET, topics=_named_topics(header), groups=(header.consumer_group,))


def _filtered_groups(header: QueryCorrectionOffsetRequest) -> set[str]:
    return {each.strip() for each in (header.filter_groups or "").split(",")}


def _compared_groups(asked: Command) -> Sequence[Requirement]:
    """Access rule of 308."""
    header = QueryCorrectionOffsetRequest.from_ext(asked.ext)
    groups = (header.compare_group, *sorted(_filtered_groups(header)))
    return requirements(Action.GET, topics=(header.topic,), groups=groups)


def _cloned_groups(asked: Command) -> Sequence[Requirement]:
    """Access rule of 314; offsets for all topics are for operators."""
    header = CloneGroupOffsetRequest.from_ext(asked.ext)
    return [
        *requirements(Action.UPDATE, topics=(header.topic or "",)),
        *requirements(Action.UPDATE, groups=(header.dest_group,)),
        *requirements(Action.GET, groups=(header.src_group,)),
    ]


class ProgressRequests(BrokerRequests):
    """Handlers for consumption progress."""

    @serves(RequestCode.GET_CONSUME_STATS, access=_group_and_topics)
    async def of_group(self, asked: Command, connection: Connection) -> Command:
        """208: return the progress of one group, for the given topics or all with committed offsets."""
        header = GetConsumeStatsRequest.from_ext(asked.ext)
        group = header.consumer_group
        topics = list[TopicConfig]()
        tps = 0.0
        slices = self._slices(_ITEMS_TOGETHER)
        for name in dict.fromkeys(_named_topics(header) or self._read_topics(group)):
            topic = self._followed(group, name)
            if topic is not None:
                topics.append(topic)
                tps += self._broker.metrics.got_per_s(name, group)
            await slices.item_done()
        body = {"consumeTps": tps, "offsetTable": Entries(self._rows(group, topics))}
        return await self._long.make(asked, connection, body)

    def _read_topics(self, group: str) -> Sequence[str]:
        """Return the topics with committed offsets, and those of a group of lite topics without one."""
        committed = self._broker.offsets.topics_of(group)
        is_lite = lite_parent_of(self._broker.groups.get(group))
        return [*committed, *self._broker.lags.topics(group)] if is_lite else committed

    async def _rows(self, group: str, topics: Iterable[TopicConfig]) -> AsyncGenerator[tuple[RawJson, RawJson], None]:
        for topic in topics:
            async for row in self._queues(group, topic, topic.read_queues):
                next_pull = self._broker.offsets.last_pull(group, Queue(topic.name, row.queue_id)).next_offset
                yield row.key, row.text(max(row.committed, next_pull))

    @serves(RequestCode.GET_BROKER_CONSUME_STATS, action=Action.GET)
    async def of_all(self, asked: Command, connection: Connection) -> Command:
        """317: return the progress of all groups by topic; with isOrder only for ordered topics.

        As in Java, all pull offsets are 0, so totalInflightDiff is minus the sum of all consumer offsets.
        """
        only_ordered = GetBrokerConsumeStatsRequest.from_ext(asked.ext).is_order
        return await self._long.make(asked, connection, Entries(self._members_of_all(only_ordered)))

    async def _members_of_all(self, only_ordered: bool) -> AsyncGenerator[tuple[str, Any], None]:
        totals = _Totals()
        yield "brokerAddr", self._broker.registration.address
        yield "consumeStatsList", Items(self._each_group(only_ordered, totals))
        yield "totalDiff", totals.behind
        yield "totalInflightDiff", -totals.consumed

    def _each_group(self, only_ordered: bool, totals: _Totals) -> Iterator[Entries]:
        for group in list(self._broker.groups.view):
            if group in self._broker.groups.view:  # not deleted meanwhile
                yield Entries([(group, Items(self._each_topic(group, only_ordered, totals)))])

    def _each_topic(self, group: str, only_ordered: bool, totals: _Totals) -> Iterator[Entries]:
        for name in self._broker.offsets.topics_of(group):
            topic = self._followed(group, name)
            if topic is not None and (topic.order or not only_ordered):
                rows = Entries(self._rows_without_pulls(group, topic, totals))
                yield Entries([("consumeTps", self._broker.metrics.got_per_s(name, group)), ("offsetTable", rows)])

    async def _rows_without_pulls(
        self, group: str, topic: TopicConfig, totals: _Totals
    ) -> AsyncGenerator[tuple[RawJson, RawJson], None]:
        async for row in self._queues(group, topic, topic.write_queues):
            totals.behind += row.max_offset - row.committed
            totals.consumed += row.committed
            yield row.key, row.text(0)

    @serves(RequestCode.QUERY_CONSUME_TIME_SPAN, action=Action.GET, topic="topic", group="group")
    async def time_span(self, asked: Command, connection: Connection) -> Command:
        """303: return store times of the oldest, newest and next message of each queue, and the delay of the next."""
        header = QueryConsumeTimeSpanRequest.from_ext(asked.ext)
        topic = self._broker.topics.get(header.topic)
        if topic is None:
            raise TopicNotExist(f"topic {header.topic} does not exist on this broker; see: gantrymq topic list")
        return await self._long.make(asked, connection, {"consumeTimeSpanSet": Items(self._spans(header.group, topic))})

    async def _spans(self, group: str, topic: TopicConfig) -> AsyncGenerator[RawJson, None]:
        text_of = queue_texts(topic.name, self._broker.registration.broker_name)
        for queue_id in range(topic.write_queues):
            queue = Queue(topic.name, queue_id)
            lag = self._broker.lags.queue(group, queue)
            bounds, committed = lag.bounds, lag.committed
            earliest = consumed = await self._stored_ms(queue, bounds.min_offset)
            if committed is not None and committed > 0:
                consumed = await self._stored_ms(queue, committed - 1)
            delay = 0
            if lag.behind:
                delay = max(0, self._broker.world.clock.now_ms() - await self._stored_ms(queue, lag.begin))
            newest = await self._stored_ms(queue, bounds.max_offset - 1)
            yield RawJson(
                f'{{"consumeTimeStamp":{consumed},"delayTime":{delay},"maxTimeStamp":{newest},'
                f'"messageQueue":{text_of(queue_id)},"minTimeStamp":{earliest}}}'
            )

    @serves(RequestCode.QUERY_CORRECTION_OFFSET, access=_compared_groups)
    async def correction(self, asked: Command, connection: Connection) -> Command:
        """308: return the lowest offsets of all groups except the filtered ones; Long.MAX_VALUE if compareGroup lags.

        Java also removes the committed offsets of the filtered groups; here they are kept.
        """
        header = QueryCorrectionOffsetRequest.from_ext(asked.ext)
        without = _filtered_groups(header)

        def shown(queue_id: int) -> int:
            committed = self._broker.offsets.committed(header.compare_group, Queue(header.topic, queue_id))
            lags = committed is not None and lowest[queue_id] > committed
            return _NO_LONGER_THERE if lags else lowest[queue_id]

        lowest: dict[int, int] = {}
        slices = self._slices(_ITEMS_TOGETHER)
        for group in self._broker.offsets.groups_of(header.topic):
            committed_by_queue = self._broker.offsets.of_group(header.topic, group) if group not in without else {}
            for queue_id, queue_offset in committed_by_queue.items():
                if queue_offset >= self._broker.store.bounds(Queue(header.topic, queue_id)).min_offset:
                    lowest[queue_id] = min(queue_offset, lowest.get(queue_id, queue_offset))
                await slices.item_done()
        offsets = Entries((queue_id, shown(queue_id)) for queue_id in sorted(lowest))
        return await self._long.make(asked, connection, {"correctionOffsets": offsets})

    @serves(RequestCode.CLONE_GROUP_OFFSET, access=_cloned_groups)
    async def clone(self, asked: Command, connection: Connection) -> Command:
        """314: copy a group's offsets to another group, for one topic or all."""
        header = CloneGroupOffsetRequest.from_ext(asked.ext)
        slices = self._slices(_ITEMS_TOGETHER)
        for name in [header.topic] if header.topic else self._broker.offsets.topics_of(header.src_group):
            known = self._broker.topics.get(name) is not None
            if known and (header.offline or self._followed(header.src_group, name) is not None):
                self._broker.offsets.copy(name, header.src_group, header.dest_group)
            await slices.item_done()
        return response_to(asked)

    def _followed(self, group: str, name: str) -> TopicConfig | None:
        """Return the topic, or None if it does not exist or the online group no longer subscribes to it."""
        return self._broker.topics.get(name) if self._broker.lags.follows(group, name) else None

    async def _queues(self, group: str, topic: TopicConfig, count: int) -> AsyncGenerator[_Row, None]:
        """Yield the progress of a group in the first *count* queues of a topic."""
        text_of = queue_texts(topic.name, self._broker.registration.broker_name)
        for queue_id in range(count):
            queue = Queue(topic.name, queue_id)
            lag = self._broker.lags.queue(group, queue)
            committed = max(0, lag.committed or 0)
            stored_ms = await self._stored_ms(queue, committed - 1) if committed else 0
            yield _Row(text_of(queue_id), queue_id, lag.bounds.max_offset, committed, max(0, stored_ms), lag)

    async def _stored_ms(self, queue: Queue, queue_offset: int) -> int:
        """Return the store time of a message, -1 if it cannot be read."""
        found = await self._broker.lags.stored_ms(queue, queue_offset)
        return -1 if found is None else found


@attrs.define
class _Totals:
    """Sums over the queues of all groups."""

    behind: int = 0
    consumed: int = 0


@attrs.frozen
class _Row:
    """One queue in the answers to 208 and 317."""

    key: RawJson
    queue_id: int
    max_offset: int
    committed: int  # 0 without a commit
    consumed_ms: int
    lag: QueueLag

    def text(self, pulled: int) -> RawJson:
        """Return the JSON object: RocketMQ's members, and the lag that all our tools report."""
        behind = "null" if self.lag.behind is None else self.lag.behind
        return RawJson(
            f'{{"behind":{behind},"brokerOffset":{self.max_offset},"consumerOffset":{self.committed},'
            f'"deletedUnread":{self.lag.deleted},"lastTimestamp":{self.consumed_ms},"pullOffset":{pulled}}}'
        )
