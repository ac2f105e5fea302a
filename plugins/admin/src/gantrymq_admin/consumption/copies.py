"""Copies of a message, which keep its unique id. No I/O.

A broker's copies name the record that was sent back in ORIGIN_MESSAGE_ID, by its offset id; copies by consumers in
order name the unique id, and copies of pop nothing.
"""

from __future__ import annotations

from gantrymq.client import ReceivedMessage
from gantrymq.plugin import properties as props
from gantrymq.plugin.model import is_offset_id
from gantrymq_admin.consumption.facts import Copy, MessageFacts, Stage

__all__ = ["copy_of", "is_copy_of"]


def is_copy_of(message: MessageFacts, record: ReceivedMessage) -> bool:
    """Return whether *record* is a copy of the message, rather than of another message with the same unique id."""
    if record.offset_id == message.offset_id:
        return False
    named = record.properties.get(props.ORIGIN_MESSAGE_ID)
    return named is None or message.offset_id in ("", named) or not is_offset_id(named)


def copy_of(record: ReceivedMessage, stage: Stage, *, popped: bool = False, due_ms: int | None = None) -> Copy:
    """Return *record* as a copy."""
    return Copy(
        stage,
        record.topic,
        record.broker_name,
        record.queue_id,
        record.queue_offset,
        record.store_timestamp,
        record.reconsume_times,
        record.offset_id,
        popped,
        due_ms,
    )
