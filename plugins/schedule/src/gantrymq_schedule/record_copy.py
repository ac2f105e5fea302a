"""The message stored in place of a waiting record when it is due, for both kinds of delay."""

from __future__ import annotations

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import StoreMessage


def copy_to_queue(record: RecordView, topic: str, queue_id: int, properties: bytes) -> StoreMessage:
    """Copy *record* to another queue with the encoded *properties*; the copy shares the record's memory.

    Body, tag, flags, timestamps, hosts and reconsume times are kept. The copy does not wait for the store's gates.
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
