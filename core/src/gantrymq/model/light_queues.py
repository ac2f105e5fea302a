"""Light queues (LMQ): additional queues that list the record of another topic, for MQTT-like fan-out.

    INNER_MULTI_DISPATCH       %LMQ%a,%LMQ%b      set by the sender: names of light queues
    INNER_MULTI_QUEUE_OFFSET   17,4               set by the broker: queue offset of the record in each

A light queue is a topic with queue 0 only. It is created by the first message that names it, without configuration.
Messages of retry topics and system topics, and delayed messages that are not due, are not listed in light queues.

Source: apache/rocketmq store/.../LmqDispatch.java, queue/MultiDispatchUtils.java, common/.../MixAll.java (LMQ).
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.model.names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from gantrymq.model.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

LIGHT_QUEUE_ID = 0
SEPARATOR = ","


def is_light(name: str) -> bool:
    """Return whether the topic or group *name* belongs to light queues."""
    return name.startswith(LMQ_PREFIX)


def fans_out(topic: str) -> bool:
    """Return whether messages of *topic* may be listed in light queues."""
    return not topic.startswith((RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)) and topic != SCHEDULE_TOPIC


def light_queue_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the light queue names in the properties of a message, unchecked; empty without names."""
    asked = properties.get(INNER_MULTI_DISPATCH, "")
    return tuple(asked.split(SEPARATOR)) if asked.strip() else ()


def light_queue_offsets(topic: str, properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return name and queue offset of each light queue that lists the stored record, without duplicates.

    The result is empty if the two properties are inconsistent.
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
