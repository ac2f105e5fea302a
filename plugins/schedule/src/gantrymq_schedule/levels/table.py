"""The table of delay levels; moves a message to the queue of its level.

    topic SCHEDULE_TOPIC_XXXX, queue = level - 1; REAL_TOPIC and REAL_QID name its target

A level above the highest is reduced to the highest, and the property DELAY is changed accordingly.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformDelayLevelMessage).
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import QueueTargets, StoreMessage
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.properties import ordered_text
from gantrymq_schedule.levels.text_cache import StoredTextCache


def queue_of(level: int) -> Queue:
    """Return the queue of *level*."""
    return Queue(SCHEDULE_TOPIC, level - 1)


def level_of(queue: Queue) -> int:
    """Return the level of a queue of the delay topic."""
    return queue.queue_id + 1


class LevelTable:
    """Moves messages to the queue of their level."""

    def __init__(self, delays_ms: Sequence[int]) -> None:
        """*delays_ms*: delays of the levels, the first is level 1; not empty."""
        self._placings = [QueueTargets(due_in_ms=delay_ms) for delay_ms in delays_ms]
        self._texts = StoredTextCache()

    def move_cached(self, message: StoreMessage) -> bool:
        """Move *message* with a cached text if one is known. Return False, and change nothing, if not. Takes 1 us."""
        found = self._texts.of(message.properties, message.topic, message.queue_id)
        if found is None:
            return False
        self._place(message, *found)
        return True

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """Move *message* with the properties *own*, which have a level above 0, to the queue of its level."""
        level = int(own[props.DELAY])
        if level > len(self._placings):
            level = len(self._placings)
            own[props.DELAY] = str(level)
        own[props.REAL_TOPIC] = message.topic
        own[props.REAL_QUEUE_ID] = str(message.queue_id)
        text = ordered_text(own)
        self._texts.learn(message.properties, message.topic, message.queue_id, text, level)
        self._place(message, text, level)
        return message

    def _place(self, message: StoreMessage, text: bytes, level: int) -> None:
        message.properties = text
        message.topic, message.queue_id = SCHEDULE_TOPIC, level - 1
        message.queue_targets = self._placings[level - 1]
