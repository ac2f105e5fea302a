"""A snapshot of the broker with all data of a scrape, read through `gantrymq.interfaces.Broker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from gantrymq.plugin.interfaces import Broker, BrokerMetrics, MetricFamily, StoreState
from gantrymq.plugin.names import DLQ_PREFIX
from gantrymq.plugin.world import DiskUsage, TimeSlices
from gantrymq_metrics.group_lags import QUEUES_TOGETHER, ConsumerLag, DeletedUnread, GroupLags, group_exists
from gantrymq_metrics.oldest_messages import OldestMessages, Pair
from gantrymq_metrics.queue_lags import QueueLags
from gantrymq_metrics.send_times import Histogram, SendTimes
from gantrymq_metrics.settings import QUEUE_LAG_LIMIT

# Topic, group (empty for puts), messages, bytes, messages per second, bytes per second. A plain tuple of plain values,
# because the garbage collector does not visit these, and there may be tens of thousands.
Flow = tuple[str, str, int, int, float, float]


class ScrapeMemory:
    """State that is kept from one scrape to the next."""

    def __init__(self) -> None:
        self.oldest = OldestMessages()
        self.queue_lags: Mapping[Pair, Mapping[int, int]] = {}
        self.deleted = DeletedUnread()


@attrs.frozen
class MetricsSnapshot:
    """All data of one scrape."""

    figures: BrokerMetrics
    state: StoreState
    oldest_ms: int  # store time of the oldest message; -1 without one
    puts: Sequence[Flow]
    gets: Sequence[Flow]
    ends: Mapping[str, int]  # topic to the sum of its queues' ends
    lags: Sequence[ConsumerLag]
    disk: DiskUsage  # of the store's file system
    topics: int  # number of topics
    permission: int  # brokerPermission
    send_times: Histogram
    is_own_topic: Callable[[str], bool]  # whether a topic is the broker's own
    dead_letters: Mapping[str, int] = attrs.field(factory=dict)  # by group, number of dead letters kept
    queue_lags: Mapping[Pair, Mapping[int, int]] = attrs.field(factory=dict)  # the largest, by queue id
    plugin_metrics: Sequence[MetricFamily] = ()


async def take_snapshot(broker: Broker, send_times: SendTimes, memory: ScrapeMemory) -> MetricsSnapshot:
    """Read everything: about 3 us per queue, and up to READS messages. Yields to the event loop in between.

    The queues of a topic are those of its configuration, as in RocketMQ's statistics of topics: light queues are left
    out, and so are queues hidden by a reduction of their number.
    """
    slices = TimeSlices(broker.world.clock, QUEUES_TOGETHER)
    puts, gets = list[Flow](), list[Flow]()
    for topic, put in broker.metrics.puts():
        puts.append((topic, "", put.messages, put.size, put.messages_per_s, put.bytes_per_s))
        await slices.item_done()
    for (topic, group), got in broker.metrics.gets():
        if group_exists(broker, group):
            gets.append((topic, group, got.messages, got.size, got.messages_per_s, got.bytes_per_s))
        await slices.item_done()
    plugin_metrics = []
    for family in broker.metrics.of_plugins():
        plugin_metrics.append(family)
        await slices.item_done()
    ends: dict[str, int] = {}
    dead_letters: dict[str, int] = {}
    reading = broker.lags.reading(QUEUES_TOGETHER)
    for topic in tuple(broker.topics.view):
        backlog = await reading.backlog(topic)
        if backlog.end:
            ends[topic] = backlog.end
            if topic.startswith(DLQ_PREFIX):
                dead_letters[topic.removeprefix(DLQ_PREFIX)] = backlog.kept
        await slices.item_done()
    queue_lags = QueueLags(broker.settings.number(QUEUE_LAG_LIMIT), memory.queue_lags)
    lags = await GroupLags(broker, memory.oldest, queue_lags, memory.deleted).read(reading)
    memory.queue_lags = queue_lags.by_pair()
    state = broker.store.state()
    oldest = broker.store.read(state.min_log_offset)
    return MetricsSnapshot(
        figures=broker.metrics.snapshot(),
        state=state,
        oldest_ms=-1 if oldest is None else oldest.store_timestamp,
        puts=puts,
        gets=gets,
        ends=ends,
        lags=lags,
        disk=broker.world.files.disk_use(broker.root),
        topics=len(broker.topics.view),
        permission=broker.settings.number("brokerPermission"),
        send_times=send_times.histogram(),
        is_own_topic=broker.topics.is_own,
        dead_letters=dead_letters,
        queue_lags=memory.queue_lags,
        plugin_metrics=plugin_metrics,
    )
