"""A snapshot of the broker with all data of a scrape, read through `gantrymq.interfaces.Broker`.

The lag of a group on a topic is summed over the topic's read queues: from the committed offset (without one, from the
first message kept) to the end of the queue. A group without any commit on a topic is not reported for it. The store
time of its oldest unconsumed message is read from the log, for a limited number of queues per scrape
(`oldest_messages`).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getConsumeStats).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from gantrymq.interfaces import Broker, BrokerMetrics, StoreState
from gantrymq.model.names import DLQ_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.world import DiskUsage
from gantrymq.world.time_slices import TimeSlices
from gantrymq_metrics.oldest_messages import GroupQueue, OldestMessages
from gantrymq_metrics.send_times import Histogram, SendTimes

QUEUES_TOGETHER = 200  # queues before the event loop is yielded


@attrs.frozen
class ConsumerLag:
    """Lag of one group on one topic."""

    topic: str
    group: str
    committed: int  # sum of queue offsets
    lag: int  # messages
    in_flight: int  # how many of these were pulled
    lag_ms: int  # age of the oldest of them; 0 if there is none or it cannot be read


@attrs.frozen
class MetricsSnapshot:
    """All data of one scrape."""

    figures: BrokerMetrics
    state: StoreState
    ends: Mapping[str, int]  # topic to the sum of its queues' ends
    lags: tuple[ConsumerLag, ...]
    disk: DiskUsage  # of the store's file system
    topics: int  # number of topics
    permission: int  # brokerPermission
    send_times: Histogram
    is_own_topic: Callable[[str], bool]  # whether a topic is the broker's own
    dead_letters: Mapping[str, int] = attrs.field(factory=dict)  # by group, number of dead letters kept


async def take_snapshot(broker: Broker, send_times: SendTimes, oldest: OldestMessages) -> MetricsSnapshot:
    """Read everything: about 2 us per queue, and up to READS messages. Yields to the event loop in between."""
    figures = broker.metrics.snapshot()
    ends: dict[str, int] = {}
    dead_letters: dict[str, int] = {}
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    for queue in broker.store.queues():
        bounds = broker.store.bounds(queue)
        ends[queue.topic] = ends.get(queue.topic, 0) + bounds.max_offset
        if queue.topic.startswith(DLQ_PREFIX):
            group = queue.topic.removeprefix(DLQ_PREFIX)
            dead_letters[group] = dead_letters.get(group, 0) + bounds.max_offset - bounds.min_offset
        await slices.item_done()
    return MetricsSnapshot(
        figures=figures,
        state=broker.store.state(),
        ends=ends,
        lags=await _all_lags(broker, figures, oldest),
        disk=broker.world.files.disk_use(broker.root),
        topics=len(broker.topics.view),
        permission=broker.settings.number("brokerPermission"),
        send_times=send_times.histogram(),
        is_own_topic=broker.topics.is_own,
        dead_letters=dead_letters,
    )


async def _all_lags(broker: Broker, figures: BrokerMetrics, oldest: OldestMessages) -> tuple[ConsumerLag, ...]:
    """Return the lag of all groups on topics that exist."""
    lag: dict[tuple[str, str], dict[GroupQueue, int]] = {}
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    wanted: dict[GroupQueue, int] = {}
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    for (topic, group), offsets in figures.committed.items():
        if broker.topics.get(topic) is not None:
            queues, *more = await _lag(broker, topic, group, offsets, slices)
            counts[topic, group] = more[0], more[1]
            lag[topic, group] = queues
            wanted.update(queues)
    stored, now_ms = await oldest.store_times(broker, wanted), broker.world.clock.now_ms()
    found = []
    for (topic, group), queues in lag.items():
        oldest_ms = min((stored[group_queue] for group_queue in queues if group_queue in stored), default=now_ms)
        committed = sum(figures.committed[topic, group].values())
        found.append(ConsumerLag(topic, group, committed, *counts[topic, group], max(0, now_ms - oldest_ms)))
        await slices.item_done()
    return tuple(found)


async def _lag(
    broker: Broker, topic: str, group: str, offsets: Mapping[int, int], slices: TimeSlices
) -> tuple[dict[GroupQueue, int], int, int]:
    """Return the next offset of a group in each queue with unconsumed messages, their number, and those in flight."""
    config = broker.topics.get(topic)
    queues: dict[GroupQueue, int] = {}
    count = in_flight = 0
    for queue_id in range(0 if config is None else config.read_queues):
        queue = Queue(topic, queue_id)
        bounds = broker.store.bounds(queue)
        begin = max(offsets.get(queue_id, 0), bounds.min_offset)
        if begin < bounds.max_offset:
            queues[group, queue] = begin
            count += bounds.max_offset - begin
            pulled = broker.offsets.last_pull(group, queue).next_offset
            if queue_id in offsets:
                in_flight += max(0, min(pulled, bounds.max_offset) - begin)
        await slices.item_done()
    return queues, count, in_flight
