"""The message stored when a delayed message is due, built from the waiting record.

It keeps properties, body, flags, timestamps and both hosts, as in Java: DELAY, REAL_TOPIC and REAL_QID stay in the
properties. It does not wait for the store's gates: the result of each message is known at once, and the offsets are
saved when the messages are durable.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (messageTimeUp).
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import StoreMessage
from gantrymq.plugin.names import HALF_TOPIC, NOT_SENDABLE
from gantrymq.plugin.properties import ordered_text
from gantrymq_schedule.record_copy import copy_to_queue


def real_target(own: Mapping[str, str]) -> tuple[str, int]:
    """Return the real topic and queue id of a message with the properties *own*.

    Raises:
        MessageIllegal: they are missing, or name a topic that only the broker writes to: half messages are decided by
            their producer, and a message sent back to the delay topic would wait for ever.
    """
    topic, queue_id = own.get(props.REAL_TOPIC, ""), own.get(props.REAL_QUEUE_ID, "")
    if not topic or not queue_id.isdecimal():
        raise MessageIllegal(
            f"{props.REAL_TOPIC}={topic} and {props.REAL_QUEUE_ID}={queue_id} do not name a valid target"
        )
    if topic == HALF_TOPIC:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {HALF_TOPIC}: a half message cannot be delayed")
    if topic in NOT_SENDABLE:
        raise MessageIllegal(f"{props.REAL_TOPIC} is {topic}, which only the broker writes to")
    return topic, int(queue_id)


def real_message(record: RecordView) -> StoreMessage:
    """Return the message to store in place of *record*; it shares the record's memory.

    Raises:
        MessageIllegal: see `real_target`.
    """
    topic, queue_id = real_target(record.properties)
    text = bytes(record.properties_bytes)
    if not text.endswith(b"\x02") and len(text) < props.MAX_BYTES:
        text = ordered_text(record.properties)
    return copy_to_queue(record, topic, queue_id, text)
