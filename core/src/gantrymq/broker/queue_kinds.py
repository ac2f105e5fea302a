"""Special queues: light queues, each of which is a topic, and batch queues.

Like a Java broker, the minimum offset reported for a batch queue that never had a message is -1.
"""

from __future__ import annotations

from gantrymq.config import Settings
from gantrymq.interfaces import Bounds
from gantrymq.model.topic import TopicConfig


def serves_light_queues(settings: Settings) -> bool:
    """Return whether consumers can use ``%LMQ%`` topics; the store plugin declares the setting."""
    return "enableLmq" in settings.schema and settings.flag("enableLmq")


def reported_min_offset(topic: TopicConfig | None, bounds: Bounds) -> int:
    """Return the minimum offset of a queue of *topic* to report to clients."""
    never_used = bounds.max_offset == 0 and topic is not None and topic.has_batch_queues
    return -1 if never_used else bounds.min_offset
