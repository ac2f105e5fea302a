"""Metrics of the broker and of its plugins (`gantrymq.interfaces.Metrics`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from gantrymq.broker.counted_plugins import counted, name_of, read_metrics
from gantrymq.broker.counting.sliding_sums import BYTES, MESSAGES, MINUTE, SlidingSums
from gantrymq.broker.parts import Parts
from gantrymq.broker.tables.offsets import AT
from gantrymq.interfaces import BrokerMetrics, MetricFamily, MidnightCounts, OnlineGroup, Throughput


class MetricsReader:
    """Reads and registers metrics (`gantrymq.interfaces.Metrics`)."""

    def __init__(self, parts: Parts, connections: Callable[[], int]) -> None:
        self._parts = parts
        self._connections = connections

    def snapshot(self) -> BrokerMetrics:
        """Return a snapshot of the broker's metrics."""
        return collect_metrics(self._parts, self._connections())

    def puts(self) -> Iterator[tuple[str, Throughput]]:
        """Iterate over the stored messages by topic."""
        return flows(self._parts.stats.puts)

    def gets(self) -> Iterator[tuple[tuple[str, str], Throughput]]:
        """Iterate over the delivered messages by topic and group."""
        return ((pair(key), flow) for key, flow in flows(self._parts.stats.gets))

    def committed(self) -> Iterator[tuple[tuple[str, str], Mapping[int, int]]]:
        """Iterate over the committed offsets by topic and group."""
        table = self._parts.offsets.table
        return ((pair(key), table[key]) for key in tuple(table) if AT in key and key in table)

    def of_plugins(self) -> Iterator[MetricFamily]:
        """Iterate over the metrics of plugins."""
        return read_metrics(tuple(self._parts.plugin_metrics))

    def register(self, read: Callable[[], MetricFamily]) -> None:
        """Add a metric of a plugin."""
        failed = partial(self._parts.stats.plugin_failed, "figure", name_of(read))
        self._parts.plugin_metrics.append(counted(read, failed))

    def put_per_s(self, topic: str) -> float:
        """Return the messages per second stored in a topic."""
        return self._parts.stats.topic_put_tps(topic)

    def got_per_s(self, topic: str, group: str | None = None) -> float:
        """Return the messages per second of a topic delivered to a group or to all."""
        stats = self._parts.stats
        return stats.topic_get_tps(topic) if group is None else stats.group_get_tps(topic, group)

    def count_delivery(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that a plugin delivered to a group."""
        self._parts.stats.pulled(messages, topic, group, size)


def collect_metrics(parts: Parts, connections: int) -> BrokerMetrics:
    """Read every small table once.

    *connections*: number of open connections.
    """
    stats, clients, identity = parts.stats, parts.clients, parts.identity
    return BrokerMetrics(
        cluster=identity.cluster,
        broker=identity.broker_name,
        broker_id=parts.registration.broker_id,
        address=identity.address,
        put=flow_of(stats.totals, "put", stats.totals.total("put")),
        got=flow_of(stats.totals, "get", stats.totals.total("get")),
        put_at_midnight=MidnightCounts(stats.put.today_morning, stats.put.yesterday_morning),
        got_at_midnight=MidnightCounts(stats.got.today_morning, stats.got.yesterday_morning),
        put_failed=stats.put_failed,
        dead_letters=dict(stats.dead_letters),
        copied=stats.put.copied,
        pulls_found=stats.found.total,
        pulls_missed=stats.missed.total,
        pulls_held=parts.held_pulls.count,
        connections=connections,
        groups=len(parts.groups.view),
        producers={group: len(members) for group, members in clients.producer_groups().items()},
        consumers={
            group.name: OnlineGroup(len(group.members), group.message_model) for group in clients.consumer_groups()
        },
        unwritten=dict(parts.state.failing),
        parked=dict(parts.dispatchers.parked),
        plugin_errors={**stats.plugin_errors, **{("dispatcher", name): 1 for name in parts.dispatchers.parked}},
        name_servers=parts.registration.states(),
        plugin_metrics=tuple(read_metrics(parts.plugin_metrics)),
    )


def flows(tally: SlidingSums) -> Iterator[tuple[str, Throughput]]:
    """Iterate over the throughput of every key with counters, without those removed meanwhile."""
    return ((key, flow_of(tally, key, tally.total(key))) for key in tally.known() if tally.knows(key))


def flow_of(tally: SlidingSums, key: str, total: tuple[int, int]) -> Throughput:
    """Return the throughput of one key, with its rates over the last minute."""
    return Throughput(*total, tally.over(key, MINUTE, MESSAGES).tps, tally.over(key, MINUTE, BYTES).tps)


def pair(key: str) -> tuple[str, str]:
    """Split ``topic@group``."""
    topic, _, group = key.partition(AT)
    return topic, group
