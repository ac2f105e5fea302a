"""The metric of popped and unacknowledged messages, as in RocketMQ 5.

Messages of ordered pops are not counted; they block their queue, and are few.

Source: apache/rocketmq broker/.../metrics/ConsumerLagCalculator.java (calculateInflight),
broker/.../processor/PopInflightMessageCounter.java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from gantrymq.interfaces import MetricFamily
from gantrymq.model.names import is_system_group
from gantrymq_pop.topics import producer_topic

__all__ = ["in_flight_metric"]

NAME = "rocketmq_consumer_inflight_messages"
LABELS = ("topic", "consumer_group", "is_retry", "is_system")


def in_flight_metric(counts: Mapping[tuple[str, str], int], is_own_topic: Callable[[str], bool]) -> MetricFamily:
    """Return the metric.

    Args:
        counts: messages by topic and group; a retry topic is reported under its original topic.
        is_own_topic: returns whether a topic belongs to the broker itself.
    """
    values: Counter[tuple[str, ...]] = Counter()
    for (real, group), count in counts.items():
        topic = producer_topic(real, group)
        system = is_own_topic(topic) or is_system_group(group)
        values[topic, group, str(topic != real).lower(), str(system).lower()] += count
    return MetricFamily(NAME, "Messages that groups popped and have not acknowledged.", LABELS, values)
