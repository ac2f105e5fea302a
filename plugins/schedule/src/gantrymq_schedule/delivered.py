"""What takes the place of a record whose time has come, for both kinds of delay."""

from __future__ import annotations

from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props

__all__ = ["in_place_of"]


def in_place_of(record: RecordView, topic: str, queue_id: int, properties: bytes) -> StoreMessage:
    """*record* for another queue, with the stored text *properties*; it shares the record's memory.

    Body, tag, flags, times, hosts and tries are the record's. No gate is waited for.
    """
    return StoreMessage(
        topic,
        queue_id,
        record.body,
        properties,
        tags_code(record.properties.get(props.TAGS)),
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_host,
        record.reconsume_times,
        wait_stored=False,
    )
