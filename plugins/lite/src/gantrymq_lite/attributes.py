"""Attributes of topics and groups, and settings, that lite topics need.

Source: apache/rocketmq broker/.../lite/LiteMetadataUtil.java, remoting/.../subscription/SubscriptionGroupConfig.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.interfaces import LiteGroup
from gantrymq.plugin.model import GroupConfig, TopicConfig
from gantrymq.plugin.settings import Settings

_QUOTA: Final = "2000"


def is_lite(topic: TopicConfig | None) -> bool:
    """Return whether a topic has lite topics."""
    return topic is not None and topic.attributes.get("message.type") == "LITE"


def expiration_minutes(topic: TopicConfig) -> int:
    """Return after how many minutes without a message a lite topic of *topic* expires; -1: never."""
    return int(topic.attributes.get("lite.topic.expiration", "-1")) or -1


def lite_group(group: GroupConfig | None) -> LiteGroup | None:
    """Return the attributes of a group of lite topics, None if it is none."""
    if group is None or not (topic := group.lite_parent):
        return None
    exclusive = group.attributes.get("lite.sub.model") == "Exclusive"
    return LiteGroup(topic, exclusive, int(group.attributes.get("lite.sub.client.quota", _QUOTA)))


def resets(group: GroupConfig | None, when: str) -> bool:
    """Return whether a group begins again in a lite topic *when* its consumer changes: exclusive or unsubscribe."""
    return group is not None and group.attributes.get(f"lite.sub.reset.offset.{when}") == "true"


def light_queues_problem(settings: Settings) -> str:
    """Return why this broker has no lite topics; empty if it can have some."""
    keys = ("enableLmq", "enableMultiDispatch")
    off = [each for each in keys if each not in settings.schema or not settings.flag(each)]
    if not off:
        return ""
    return (
        f"lite topics need light queues, and this broker has none: set {' and '.join(f'{each}=true' for each in off)} "
        "(with store=mmap), and start it again"
    )
