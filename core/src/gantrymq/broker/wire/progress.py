"""Consumption progress of groups: 208, 317 (statistics), 303 (times), 308 (lowest offsets), 314 (copy to a group).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats, fetchAllConsumeStatsInBroker,
queryConsumeTimeSpan, queryCorrectionOffset, cloneGroupOffset), broker/.../offset/ConsumerOffsetManager.java.
"""

from __future__ import annotations

from typing import Any

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.offsets import first_store_time, store_time_at
from gantrymq.broker.wire.paging import ITEMS_TOGETHER
from gantrymq.broker.wire.responses import ok, queue_key, with_table
from gantrymq.errors import TopicNotExist
from gantrymq.interfaces import Connection
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.groups import (
    CloneGroupOffsetRequest,
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
)
from gantrymq.remoting.serving import serves
from gantrymq.world.time_slices import TimeSlices

_NO_LONGER_THERE = (1 << 63) - 1  # Long.MAX_VALUE: the compared group has a lower offset than all others


class ProgressRequests:
    """Handlers for consumption progress."""

    def __init__(self, parts: Parts) -> None:
        self._identity = parts.identity
        self._clock = parts.world.clock
        self._workers = parts.world.workers
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._offsets = parts.offsets
        self._stats = parts.stats

    @serves(RequestCode.GET_CONSUME_STATS)
    async def of_group(self, asked: Command, connection: Connection) -> Command:
        """208: return the progress of one group, for the given topics or all with committed offsets."""
        header = GetConsumeStatsRequest.from_ext(asked.ext)
        group = header.consumer_group
        named = [header.topic, *(header.topic_list or "").split(";")]
        table: dict[Any, Any] = {}
        tps = 0.0
        for name in [each for each in named if each] or self._offsets.topics_of(group):
            topic = self._followed(group, name)
            if topic is not None:
                table |= await self._queues(group, topic, topic.read_queues, pulled=True)
                tps += self._stats.group_get_tps(name, group)
        return await with_table(asked, {"consumeTps": tps, "offsetTable": table}, self._workers)

    @serves(RequestCode.GET_BROKER_CONSUME_STATS)
    async def of_all(self, asked: Command, connection: Connection) -> Command:
        """317: return the progress of all groups by topic; with isOrder only for ordered topics.

        As in Java, all pull offsets are 0, so totalInflightDiff is minus the sum of all consumer offsets.
        """
        only_ordered = GetBrokerConsumeStatsRequest.from_ext(asked.ext).is_order
        groups: list[dict[str, Any]] = []
        behind = in_flight = 0
        slices = TimeSlices(self._clock, ITEMS_TOGETHER)
        for group in list(self._groups.view):
            found = []
            for name in self._offsets.topics_of(group):
                topic = self._followed(group, name)
                if topic is None or (only_ordered and not topic.order):
                    continue
                table = await self._queues(group, topic, topic.write_queues, pulled=False)
                found.append({"consumeTps": self._stats.group_get_tps(name, group), "offsetTable": table})
                behind += sum(each["brokerOffset"] - each["consumerOffset"] for each in table.values())
                in_flight += sum(each["pullOffset"] - each["consumerOffset"] for each in table.values())
                await slices.item_done()
            groups.append({group: found})
            await slices.item_done()
        body = {
            "brokerAddr": self._identity.address,
            "consumeStatsList": groups,
            "totalDiff": behind,
            "totalInflightDiff": in_flight,
        }
        return await with_table(asked, body, self._workers)

    @serves(RequestCode.QUERY_CONSUME_TIME_SPAN)
    async def time_span(self, asked: Command, connection: Connection) -> Command:
        """303: return store times of the oldest, newest and next message of each queue, and the delay of the next."""
        header = QueryConsumeTimeSpanRequest.from_ext(asked.ext)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise TopicNotExist(f"topic {header.topic} does not exist on this broker; see: gantrymq topic list")
        spans, slices = [], TimeSlices(self._clock, ITEMS_TOGETHER)
        for queue_id in range(topic.write_queues):
            queue = Queue(topic.name, queue_id)
            bounds = self._store.bounds(queue)
            committed = self._offsets.committed(header.group, queue)
            earliest = await first_store_time(self._store, queue)
            consumed = earliest
            if committed is not None and committed > 0:
                consumed = await store_time_at(self._store, queue, committed - 1)
            delay = 0
            if (committed or 0) < bounds.max_offset:
                delay = self._clock.now_ms() - await store_time_at(self._store, queue, committed or 0)
            spans.append(
                {
                    "consumeTimeStamp": consumed,
                    "delayTime": delay,
                    "maxTimeStamp": await store_time_at(self._store, queue, bounds.max_offset - 1),
                    "messageQueue": self._of_cluster(queue).to_json(),
                    "minTimeStamp": earliest,
                }
            )
            await slices.item_done()
        return await with_table(asked, {"consumeTimeSpanSet": spans}, self._workers)

    @serves(RequestCode.QUERY_CORRECTION_OFFSET)
    async def correction(self, asked: Command, connection: Connection) -> Command:
        """308: return the lowest offsets of all groups except the filtered ones; Long.MAX_VALUE if compareGroup lags.

        Java also removes the committed offsets of the filtered groups; here they are kept.
        """
        header = QueryCorrectionOffsetRequest.from_ext(asked.ext)
        without = {each.strip() for each in (header.filter_groups or "").split(",")}

        def min_offset(queue_id: int) -> int:
            return self._store.bounds(Queue(header.topic, queue_id)).min_offset

        lowest: dict[int, int] = {}
        slices = TimeSlices(self._clock, 1)
        for group in self._offsets.groups_of(header.topic):
            if group not in without:
                self._offsets.lower(lowest, header.topic, group, min_offset)
                await slices.item_done()
        for queue_id, queue_offset in lowest.items():
            committed = self._offsets.committed(header.compare_group, Queue(header.topic, queue_id))
            if committed is not None and queue_offset > committed:
                lowest[queue_id] = _NO_LONGER_THERE
        return await with_table(asked, {"correctionOffsets": lowest}, self._workers)

    @serves(RequestCode.CLONE_GROUP_OFFSET)
    def clone(self, asked: Command, connection: Connection) -> Command:
        """314: copy a group's offsets to another group, for one topic or all."""
        header = CloneGroupOffsetRequest.from_ext(asked.ext)
        for name in [header.topic] if header.topic else self._offsets.topics_of(header.src_group):
            known = self._topics.get(name) is not None
            if known and (header.offline or self._followed(header.src_group, name) is not None):
                self._offsets.copy(name, header.src_group, header.dest_group)
        return ok(asked)

    def _followed(self, group: str, name: str) -> TopicConfig | None:
        """Return the topic, or None if it does not exist or the online group no longer subscribes to it."""
        online = self._clients.consumer_group(group)
        if online is not None and online.subscriptions and name not in online.subscriptions:
            return None
        return self._topics.get(name)

    def _of_cluster(self, queue: Queue) -> MessageQueue:
        return MessageQueue(queue.topic, self._identity.broker_name, queue.queue_id)

    async def _queues(self, group: str, topic: TopicConfig, count: int, *, pulled: bool) -> dict[Any, Any]:
        """Return the offsets by queue."""
        table: dict[Any, Any] = {}
        slices = TimeSlices(self._clock, ITEMS_TOGETHER)
        for queue_id in range(count):
            queue = Queue(topic.name, queue_id)
            consumed = max(0, self._offsets.committed(group, queue) or 0)
            stored_ms = await store_time_at(self._store, queue, consumed - 1) if consumed else 0
            table[queue_key(self._of_cluster(queue))] = {
                "brokerOffset": self._store.bounds(queue).max_offset,
                "consumerOffset": consumed,
                "lastTimestamp": max(0, stored_ms),
                "pullOffset": max(consumed, self._offsets.last_pull(group, queue).next_offset) if pulled else 0,
            }
            await slices.item_done()
        return table
