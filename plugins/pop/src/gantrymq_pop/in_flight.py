"""How many messages of each topic groups popped and did not acknowledge, as RocketMQ 5 shows it.

Those of pops in order are not counted; they block their queue, and are few.

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
    """Return the figure.

    Args:
        counts: messages by real topic and group; a retry topic is shown as the topic that it is for.
        is_own_topic: whether a topic is the broker's own.
    """
    values: Counter[tuple[str, ...]] = Counter()
    for (real, group), count in counts.items():
        topic = producer_topic(real, group)
        system = is_own_topic(topic) or is_system_group(group)
        values[topic, group, str(topic != real).lower(), str(system).lower()] += count
    return MetricFamily(NAME, "Messages that groups popped and have not acknowledged.", LABELS, values)
