"""Queues that are not like the others: light ones, which are a topic each, and those of batches.

Clients are told that a batch queue that never had a message begins at -1, as by a Java broker.
"""

from __future__ import annotations

from gantrymq.config import Settings
from gantrymq.interfaces import Bounds
from gantrymq.model.topic import TopicConfig

__all__ = ["reported_min_offset", "serves_light_queues"]


def serves_light_queues(settings: Settings) -> bool:
    """Whether ``%LMQ%`` topics are there for consumers; the store's plugin declares the key."""
    return "enableLmq" in settings.schema and settings.flag("enableLmq")


def reported_min_offset(topic: TopicConfig | None, bounds: Bounds) -> int:
    """The first offset of a queue of *topic* as clients are told it."""
    never_used = bounds.max_offset == 0 and topic is not None and topic.has_batch_queues
    return -1 if never_used else bounds.min_offset
