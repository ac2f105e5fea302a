"""The table of delay levels; moves a message to the queue of its level.

    topic SCHEDULE_TOPIC_XXXX, queue = level - 1; REAL_TOPIC and REAL_QID name its target

A level above the highest is reduced to the highest, and the property DELAY is changed accordingly.

A waiting message has its own properties plus its target topic and queue, in the order of Java's HashMap. Messages of
one producer mostly differ in their unique id only, so the computed text is cached with a gap for that id.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformDelayLevelMessage).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import QueueTargets, StoreMessage
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.properties import ordered_text

KEPT: Final = 1024  # distinct texts
_MARK: Final = b"UNIQ_KEY\x01"
_ENDS: Final = (b"", b"\x02")  # what may precede a property name


class TextTemplate(NamedTuple):
    """Stored text of similar messages, without the unique id."""

    before: bytes  # text before the unique id
    after: bytes  # text after it
    level: int


class StoredTextCache:
    """Templates by property text without the unique id, topic and queue id."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, str, int], TextTemplate] = {}

    def of(self, text: bytes, topic: str, queue_id: int) -> tuple[bytes, int] | None:
        """Return the stored text and the level of a message with these properties, None if they are not cached."""
        before, _, rest = text.partition(_MARK)
        unique_id, _, after = rest.partition(b"\x02")
        known = self._known.get((before, after, topic, queue_id))
        if known is None or not unique_id or not unique_id.isascii():
            return None
        return known.before + unique_id + known.after, known.level

    def learn(self, text: bytes, topic: str, queue_id: int, stored: bytes, level: int) -> None:
        """Cache that a message with the properties *text* got the text *stored* and *level*."""
        before, _, rest = text.partition(_MARK)
        unique_id, end, after = rest.partition(b"\x02")
        gap = _MARK + unique_id + b"\x02"
        if before[-1:] not in _ENDS or not unique_id.isascii() or not unique_id or not end or _MARK in after:
            return
        if stored.count(gap) != 1 or stored.count(_MARK) != 1:
            return  # the id, or the name UNIQ_KEY, also occurs elsewhere in the text
        start, _, rest = stored.partition(gap)
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[before, after, topic, queue_id] = TextTemplate(start + _MARK, b"\x02" + rest, level)


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
