"""The table of delay levels, and how a message gets to the queue of its level.

    topic SCHEDULE_TOPIC_XXXX, queue = level - 1; REAL_TOPIC and REAL_QID say where it goes when it is due

A level above the highest counts as the highest, and DELAY says so then.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformDelayLevelMessage).
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.interfaces import QueueTargets, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.property_order import ordered_text
from gantrymq.model.queue import Queue
from gantrymq_schedule.levels.waiting_texts import WaitingTexts

__all__ = ["LevelTable", "level_of", "queue_of"]


def queue_of(level: int) -> Queue:
    """Where messages of *level* wait."""
    return Queue(SCHEDULE_TOPIC, level - 1)


def level_of(queue: Queue) -> int:
    """What `queue_of` makes a queue of."""
    return queue.queue_id + 1


class LevelTable:
    """Moves messages to the queue of their level."""

    def __init__(self, delays_ms: Sequence[int]) -> None:
        """*delays_ms*: durations by level, the first is level 1; at least one."""
        self._placings = [QueueTargets(due_in_ms=delay_ms) for delay_ms in delays_ms]
        self._texts = WaitingTexts()

    def move_alike(self, message: StoreMessage) -> bool:
        """Send *message* to its queue if one like it went there before; False leaves it as it is. Costs 1 us."""
        found = self._texts.of(message.properties, message.topic, message.queue_id)
        if found is None:
            return False
        self._place(message, *found)
        return True

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """Send *message*, whose properties *own* ask for a level above 0, to its queue."""
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
