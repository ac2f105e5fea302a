"""What a broker knows of itself, for plugins that show it (`Broker.metrics`).

Counts grow from the broker's start and never shrink, but those of a deleted topic go with it. Rates are over the last
whole minute, in parts of ten seconds: they lag by up to one part.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Throughput:
    """Messages that went one way."""

    messages: int = 0
    size: int = 0  # bytes of the records
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0


@attrs.frozen
class OnlineGroup:
    """A consumer group that has members now."""

    members: int
    message_model: str  # CLUSTERING or BROADCASTING


@attrs.frozen
class MidnightCounts:
    """What a count had come to when days began, at midnight of the host's time zone; 0 before the first one."""

    today: int = 0
    yesterday: int = 0


@attrs.frozen
class MetricFamily:
    """What a plugin shows under one name (`Broker.register_metrics`)."""

    name: str  # rocketmq-exporter's or RocketMQ's where one of them has it, else it begins with gantrymq_
    help: str  # a sentence
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]  # by the values of the labels
    counter: bool = False  # only grows; the name ends in _total
    runtime_key: str = ""  # in the answer to request 28 under this key too; a figure without labels
    runtime_rows: Mapping[str, str] = attrs.field(factory=dict)  # further rows of that answer
    as_exporter: bool = False  # the name is rocketmq-exporter's, which names a broker by other labels than RocketMQ
    sentences: Mapping[tuple[str, ...], str] = attrs.field(factory=dict)  # why; told of the labels' group and topic


@attrs.frozen
class BrokerMetrics:
    """One moment of a broker. The mappings belong to whoever asked."""

    cluster: str
    broker: str  # brokerName
    address: str  # host:port as advertised
    puts: Mapping[str, Throughput]  # by topic
    gets: Mapping[tuple[str, str], Throughput]  # by topic and group
    put: Throughput  # all topics
    got: Throughput  # all groups
    put_at_midnight: MidnightCounts  # of the messages in `put` and `got` that are not of system topics
    got_at_midnight: MidnightCounts
    put_failed: int  # sends that were refused
    pulls_found: int
    pulls_missed: int
    pulls_held: int  # waiting in long polls now
    connections: int  # open ones that have asked something
    groups: int  # consumer groups that exist, online or not
    producers: Mapping[str, int]  # group to members
    consumers: Mapping[str, OnlineGroup]
    committed: Mapping[tuple[str, str], Mapping[int, int]]  # topic and group to queue id to queue offset
    unwritten: Mapping[str, str]  # file below config/ that cannot be written, to a sentence; memory has what it lacks
    parked: Mapping[str, str]  # dispatcher to the reason why it is not fed any more
    plugin_errors: Mapping[tuple[str, str], int]  # kind and name of what raised, to how often; parked ones too
    name_servers: Mapping[str, str | None]  # address to what is wrong there; None: it has us registered
    plugin_metrics: tuple[MetricFamily, ...] = ()  # by plugins
    dead_letters: Mapping[tuple[str, str], int] = attrs.field(factory=dict)  # made since the start, by topic and group
