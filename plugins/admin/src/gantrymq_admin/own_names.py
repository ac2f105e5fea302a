"""Topics and groups that belong to RocketMQ itself: brokers, tools and clients create them when they need them.

Sources: apache/rocketmq common/.../topic/TopicValidator.java, common/.../MixAll.java (PREDEFINE_GROUP_SET).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gantrymq.plugin import names
from gantrymq.plugin.client import ClusterInfo

__all__ = ["is_own_group", "is_own_topic", "named_after", "of_clusters"]

_GROUPS: Final = frozenset(
    {*names.SYSTEM_GROUPS, "DEFAULT_CONSUMER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER", "SELF_TEST_P_GROUP"}
)


def named_after(clusters: Collection[str], brokers: Collection[str]) -> frozenset[str]:
    """Return the names of the topics that brokers create for their clusters and for themselves."""
    return frozenset({*clusters, *brokers, *(f"{cluster}_REPLY_TOPIC" for cluster in clusters)})


def of_clusters(info: ClusterInfo) -> frozenset[str]:
    """Return `named_after` for all clusters of the name servers."""
    return named_after(info.clusters, [broker.name for broker in info.brokers])


def is_own_topic(topic: str, places: Collection[str]) -> bool:
    """Return whether a topic is RocketMQ's own; *places* are the names of `named_after`."""
    return topic in places or names.is_system_topic(topic)


def is_own_group(group: str) -> bool:
    """Return whether a group is RocketMQ's own."""
    return group in _GROUPS or names.is_system_group(group)
