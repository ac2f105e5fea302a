"""Light queues: one record that further queues list besides its own, the way MQTT fans a message out.

    INNER_MULTI_DISPATCH       %LMQ%a,%LMQ%b      what the sender asks for
    INNER_MULTI_QUEUE_OFFSET   17,4               what the broker answers in the record: its queue offset in each

A light queue is a topic of its own with the one queue 0. It is made when a message first names it; nobody configures
it. Messages of retry topics, of the broker's own topics and delayed ones that are not due yet are not fanned out.

Source: apache/rocketmq store/.../LmqDispatch.java, queue/MultiDispatchUtils.java, common/.../MixAll.java (LMQ).
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.model.names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from gantrymq.model.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

__all__ = ["LIGHT_QUEUE_ID", "fans_out", "is_light", "light_queue_names", "light_queue_offsets"]

LIGHT_QUEUE_ID = 0
SEPARATOR = ","


def is_light(name: str) -> bool:
    """Whether *name*, of a topic or of a group, is a light queue's."""
    return name.startswith(LMQ_PREFIX)


def fans_out(topic: str) -> bool:
    """Whether messages of *topic* may name light queues."""
    return not topic.startswith((RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)) and topic != SCHEDULE_TOPIC


def light_queue_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names that a message's properties ask for, as they stand there; empty when they ask for none."""
    asked = properties.get(INNER_MULTI_DISPATCH, "")
    return tuple(asked.split(SEPARATOR)) if asked.strip() else ()


def light_queue_offsets(topic: str, properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Light queue and queue offset, for each queue that lists the stored record; each queue once.

    A record whose two properties do not belong together is in no light queue.
    """
    offsets = properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(SEPARATOR)
    names = light_queue_names(properties)
    if len(names) != len(offsets) or not fans_out(topic):
        return []
    found: dict[str, int] = {}
    for name, offset in zip(names, offsets, strict=True):
        if is_light(name) and offset.isascii() and offset.isdecimal() and len(offset) < 20:
            found.setdefault(name, int(offset))
    return list(found.items())
