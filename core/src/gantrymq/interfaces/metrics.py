"""Metrics of a broker, for plugins that export them (`Broker.metrics`).

Counters start at 0 with the broker and never decrease; those of a deleted topic are removed. Rates cover the last whole
minute in steps of ten seconds, so they lag by up to one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import attrs


@attrs.frozen
class Throughput:
    """Messages and bytes in one direction."""

    messages: int = 0
    size: int = 0  # record bytes
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0


@attrs.frozen
class OnlineGroup:
    """A consumer group with connected members."""

    members: int
    message_model: str  # CLUSTERING or BROADCASTING


@attrs.frozen
class MidnightCounts:
    """Counter values at the last two midnights in the host's time zone; 0 before the first midnight."""

    today: int = 0
    yesterday: int = 0


@attrs.frozen
class MetricFamily:
    """A metric of a plugin with its labelled values (`Metrics.register`)."""

    name: str  # rocketmq-exporter's or RocketMQ's name if it has one, else with the prefix gantrymq_
    help: str  # one sentence
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]  # by label values
    counter: bool = False  # monotonic; the name ends in _total
    runtime_key: str = ""  # key of the value in the response to request 28; only for a metric without labels
    runtime_rows: Mapping[str, str] = attrs.field(factory=dict)  # further rows of that response
    as_exporter: bool = False  # use rocketmq-exporter's labels for the broker, which differ from RocketMQ's own
    sentences: Mapping[tuple[str, ...], str] = attrs.field(factory=dict)  # explanations for the labels' group and topic
    health: Mapping[str, object] = attrs.field(factory=dict)  # further members of the JSON object of /healthz


@attrs.frozen
class BrokerMetrics:
    """A snapshot of a broker's metrics, without those by topic. The caller owns the mappings."""

    cluster: str
    broker: str  # brokerName
    broker_id: int  # under which it is registered; 0: master
    address: str  # host:port as advertised
    put: Throughput  # total of all topics, and what a slave copied
    got: Throughput  # total of all groups
    put_at_midnight: MidnightCounts  # like `put` and `got`, without system topics
    got_at_midnight: MidnightCounts
    put_failed: int  # refused sends
    pulls_found: int
    pulls_missed: int
    pulls_held: int  # current long polls
    connections: int  # open connections that have sent a request, or were admitted by a listener's protocol
    groups: int  # existing consumer groups, online or not
    producers: Mapping[str, int]  # group to number of members
    consumers: Mapping[str, OnlineGroup]
    unwritten: Mapping[str, str]  # unwritable files below config/ to error sentences; memory has the current state
    parked: Mapping[str, str]  # suspended dispatchers to the reason
    plugin_errors: Mapping[tuple[str, str], int]  # exceptions by kind and name of the plugin's object
    name_servers: Mapping[str, str | None]  # address to error; None: this broker is registered there
    plugin_metrics: tuple[MetricFamily, ...] = ()  # by plugins
    dead_letters: Mapping[tuple[str, str], int] = attrs.field(factory=dict)  # since the start, by topic and group
    copied: int = 0  # messages of `put` that a slave copied, which are not counted by topic


class Metrics(Protocol):
    """Counters of the broker, and metrics of plugins; `Broker.metrics`."""

    def snapshot(self) -> BrokerMetrics:
        """Return a snapshot of the broker's metrics; for monitoring, too expensive to call per message."""

    def puts(self) -> Iterator[tuple[str, Throughput]]:
        """Iterate over the stored messages by topic. Each is read when it is yielded, like those of `of_plugins`."""

    def gets(self) -> Iterator[tuple[tuple[str, str], Throughput]]:
        """Iterate over the delivered messages by topic and group."""

    def committed(self) -> Iterator[tuple[tuple[str, str], Mapping[int, int]]]:
        """Iterate over the committed offsets: topic and group, and their queue ids with offsets.

        A mapping is the broker's own: use it before the next await.
        """

    def of_plugins(self) -> Iterator[MetricFamily]:
        """Iterate over the metrics of plugins. Each is read when it is yielded, so the caller may yield to the loop."""

    def register(self, read: Callable[[], MetricFamily]) -> None:
        """Add a metric of a plugin: *read* is called for each snapshot.

        It must return immediately, from memory. If it raises, the exception is logged and counted, and the metric is
        omitted.
        """

    def put_per_s(self, topic: str) -> float:
        """Return the messages per second stored in a topic, over the last minute."""

    def got_per_s(self, topic: str, group: str | None = None) -> float:
        """Return the messages per second of a topic delivered to a group, None: to all, over the last minute."""

    def count_delivery(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that a plugin delivered to a group, *size* bytes in total, like those of pulls."""
