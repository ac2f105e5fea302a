"""What is stored when a delayed message is due, made of the record that waited.

It keeps properties, body, flags, times and both hosts, as with Java: the text still has DELAY, REAL_TOPIC and REAL_QID.
No gate is waited for: what became of each message is known at once, and the progress is saved when they are durable.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (messageTimeUp).
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.errors import MessageIllegal
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import HALF_TOPIC, NOT_SENDABLE
from gantrymq.model.property_order import ordered_text
from gantrymq_schedule.delivered import in_place_of

__all__ = ["real_message", "real_place"]


def real_place(own: Mapping[str, str]) -> tuple[str, int]:
    """Topic and queue id that a message with the properties *own* goes to.

    Raises:
        MessageIllegal: it does not say, or names a topic that only the broker writes to: the owner of half messages
            decides on them, and what came back to the delayed messages would wait for ever.
    """
    topic, queue_id = own.get(props.REAL_TOPIC, ""), own.get(props.REAL_QUEUE_ID, "")
    if not topic or not queue_id.isdecimal():
        raise MessageIllegal(
            f"{props.REAL_TOPIC}={topic} and {props.REAL_QUEUE_ID}={queue_id} do not say where it belongs"
        )
    if topic == HALF_TOPIC:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {HALF_TOPIC}: a half message cannot be delayed")
    if topic in NOT_SENDABLE:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {topic}, which only the broker writes to")
    return topic, int(queue_id)


def real_message(record: RecordView) -> StoreMessage:
    """The message to store in place of *record*; it shares the record's memory.

    Raises:
        MessageIllegal: see `real_place`.
    """
    topic, queue_id = real_place(record.properties)
    text = bytes(record.properties_bytes)
    if not text.endswith(b"\x02") and len(text) < props.MAX_BYTES:
        text = ordered_text(record.properties)
    return in_place_of(record, topic, queue_id, text)
