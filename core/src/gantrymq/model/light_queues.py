"""Light queues (LMQ): additional queues that list the record of another topic, for MQTT-like fan-out.

    INNER_MULTI_DISPATCH       %LMQ%a,%LMQ%b      set by the sender: names of light queues
    INNER_MULTI_QUEUE_OFFSET   17,4               set by the broker: queue offset of the record in each

A light queue is a topic with queue 0 only. It is created by the first message that names it, without configuration.
Messages of retry topics and system topics, and delayed messages that are not due, are not listed in light queues.

A lite topic (RIP-83) is a light queue for one of the many small topics below a topic with ``message.type=LITE``:

    %LMQ%$<parent topic>$<lite topic>

Source: apache/rocketmq store/.../LmqDispatch.java, queue/MultiDispatchUtils.java, common/.../MixAll.java (LMQ),
common/.../lite/LiteUtil.java; the proxy's rules of names of lite topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gantrymq.errors import LiteTopicIllegal
from gantrymq.model.names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from gantrymq.model.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

LIGHT_QUEUE_ID = 0
SEPARATOR = ","
LITE_MARK = "$"  # no topic name contains it
LITE_PREFIX = LMQ_PREFIX + LITE_MARK
MAX_LITE_TOPIC_CHARS = 64

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+\Z")


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


def lite_queue(parent: str, lite_topic: str) -> str:
    """Return the light queue of a lite topic."""
    return f"{LITE_PREFIX}{parent}{LITE_MARK}{lite_topic}"


def lite_topic_of(light_queue: str) -> tuple[str, str] | None:
    """Return the parent topic and the lite topic of a light queue; None if it belongs to no lite topic."""
    if not light_queue.startswith(LITE_PREFIX):
        return None
    parent, _, lite_topic = light_queue[len(LITE_PREFIX) :].partition(LITE_MARK)
    return (parent, lite_topic) if parent and lite_topic and LITE_MARK not in lite_topic else None


def is_lite_queue_of(parent: str, name: str) -> bool:
    """Return whether *name* is the light queue of a lite topic of *parent*; False if *parent* is empty."""
    of_lite_topic = lite_topic_of(name)
    return of_lite_topic is not None and of_lite_topic[0] == parent


def check_lite_topic(name: str) -> None:
    """Check the name of a lite topic with RocketMQ's rules.

    Raises:
        LiteTopicIllegal: it is empty, too long, or has a character outside ``[a-zA-Z0-9_-]``.
    """
    if len(name) > MAX_LITE_TOPIC_CHARS:
        raise LiteTopicIllegal(
            f"the lite topic {name[:40]!r}... has {len(name)} characters, the longest allowed is {MAX_LITE_TOPIC_CHARS}"
        )
    if not _LEGAL.match(name):
        raise LiteTopicIllegal(
            f"the lite topic {name!r} is not a name of 1 to {MAX_LITE_TOPIC_CHARS} letters, digits, _ and -"
        )
