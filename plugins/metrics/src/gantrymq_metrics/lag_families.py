"""Consumer lag metrics: messages, times, retries and dead letters.

Source: apache/rocketmq-exporter src/.../collector/RMQMetricsCollector.java; apache/rocketmq
broker/.../metrics/ConsumerLagCalculator.java, BrokerMetricsManager.java (buildLagAttributes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group
from gantrymq_metrics.group_lags import ConsumerLag
from gantrymq_metrics.metric_builder import Family, MetricBuilder, Sample
from gantrymq_metrics.snapshot import MetricsSnapshot

IN_FLIGHT = "rocketmq_consumer_inflight_messages"

OTHER_QUEUES = "other"  # label value: all queues without a series of their own

_TOPIC_AND_GROUP = ("topic", "group")
_DIFF_LABELS = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_LAG_LABELS = ("topic", "consumer_group", "is_retry", "is_system")


def lag_families(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    """Yield the lag metrics of rocketmq-exporter, those of RocketMQ 5, and the lag by queue."""
    yield make.gauge(
        "rocketmq_group_get_latency_by_storetime",
        "Milliseconds since the oldest unconsumed message was stored.",
        _TOPIC_AND_GROUP,
        (((each.topic, each.group), each.lag_ms) for each in _known(snapshot)),
        as_exporter=True,
    )
    for name, text, retried in (
        ("rocketmq_group_diff", "Consumer lag in messages.", False),
        ("rocketmq_group_retrydiff", "Consumer lag in messages on the group's retry topic.", True),
    ):
        diffs = (
            _diff(snapshot, each.group, each.topic, each.lag or 0)
            for each in _known(snapshot)
            if _retried(each) == retried
        )
        yield make.gauge(name, text, _DIFF_LABELS, diffs, as_exporter=True)
    yield make.gauge(
        "rocketmq_group_dlqdiff",
        "Dead letters of the group that are kept.",
        _DIFF_LABELS,
        (_diff(snapshot, group, DLQ_PREFIX + group, count) for group, count in snapshot.dead_letters.items()),
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_topic_retry_offset",
        "Sum of the ends of the retry topic's queues.",
        ("topic",),
        [((topic,), end) for topic, end in snapshot.ends.items() if topic.startswith(RETRY_PREFIX)],
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_topic_dlq_offset",
        "Sum of the ends of the dead letter topic's queues.",
        ("group",),
        [
            ((topic.removeprefix(DLQ_PREFIX),), end)
            for topic, end in snapshot.ends.items()
            if topic.startswith(DLQ_PREFIX)
        ],
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_consumer_lag_messages",
        "Consumer lag in messages.",
        _LAG_LABELS,
        ((_lag_labels(snapshot, each), each.lag or 0) for each in _own(snapshot)),
    )
    yield make.gauge(
        "rocketmq_consumer_lag_latency",
        "Milliseconds since the oldest unconsumed message was stored.",
        _LAG_LABELS,
        ((_lag_labels(snapshot, each), each.lag_ms) for each in _own(snapshot)),
    )
    yield make.gauge(
        IN_FLIGHT,
        "Messages that were delivered to the group and are not acknowledged.",
        _LAG_LABELS,
        _in_flight(snapshot),
    )
    yield make.counter(
        "rocketmq_send_to_dlq_messages_total",
        "Messages that became dead letters of the group.",
        ("topic", "consumer_group", "is_system"),
        [
            ((topic, group, _system(snapshot, topic, group)), count)
            for (topic, group), count in snapshot.figures.dead_letters.items()
        ],
    )
    yield make.counter(
        "gantrymq_group_deleted_unread_messages_total",
        "Messages that were deleted before the group consumed them.",
        _TOPIC_AND_GROUP,
        (((each.topic, each.group), each.deleted) for each in _known(snapshot)),
    )
    yield make.gauge(
        "gantrymq_queue_lag_messages",
        "Consumer lag in messages by queue.",
        (*_TOPIC_AND_GROUP, "queue"),
        _by_queue(snapshot) if snapshot.queue_lags else (),
    )


def _in_flight(snapshot: MetricsSnapshot) -> Iterator[Sample]:
    """Return the messages in flight by labels: pulled ones, and popped ones from a plugin's metric of this name."""
    popped: Counter[tuple[str, ...]] = Counter()
    for shown in snapshot.plugin_metrics:
        if shown.name == IN_FLIGHT and shown.labels == _LAG_LABELS:
            popped.update({labels: int(value) for labels, value in shown.values.items()})
    for each in _own(snapshot):
        labels = _lag_labels(snapshot, each)
        yield labels, each.in_flight + popped.pop(labels, 0)
    yield from popped.items()


def _by_queue(snapshot: MetricsSnapshot) -> Iterator[Sample]:
    """Return the lag of single queues, and of all others of the same topic and group together."""
    for each in _known(snapshot):
        pair = each.topic, each.group
        shown = snapshot.queue_lags.get(pair, {})
        for queue_id, lag in shown.items():
            yield (*pair, str(queue_id)), lag
        if others := (each.lag or 0) - sum(shown.values()):
            yield (*pair, OTHER_QUEUES), others


def _known(snapshot: MetricsSnapshot) -> Iterator[ConsumerLag]:
    return (each for each in snapshot.lags if each.lag is not None)


def _own(snapshot: MetricsSnapshot) -> Iterator[ConsumerLag]:
    return (each for each in _known(snapshot) if not _retried(each))


def _retried(lag: ConsumerLag) -> bool:
    return lag.topic.startswith(RETRY_PREFIX)


def _diff(snapshot: MetricsSnapshot, group: str, topic: str, count: int) -> Sample:
    online = snapshot.figures.consumers.get(group)
    members, model = (0, "CLUSTERING") if online is None else (online.members, online.message_model)
    return (group, topic, str(members), model), count


def _lag_labels(snapshot: MetricsSnapshot, lag: ConsumerLag) -> tuple[str, str, str, str]:
    return lag.topic, lag.group, "false", _system(snapshot, lag.topic, lag.group)


def _system(snapshot: MetricsSnapshot, topic: str, group: str) -> str:
    return str(snapshot.is_own_topic(topic) or is_system_group(group)).lower()
