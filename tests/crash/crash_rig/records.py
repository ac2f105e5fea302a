"""The messages in a record: where a queue lists them, and their bodies."""

from __future__ import annotations

from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.record import RecordView
from gantrymq.model.light_queues import is_light, light_queue_offsets
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH


def messages_in(queue: Queue, record: RecordView) -> list[tuple[int, bytes]]:
    """Queue offsets in *queue*, and bodies, of the messages that *record* holds: several where it is an inner batch."""
    if is_light(queue.topic):
        place = dict(light_queue_offsets(record.topic, record.properties)).get(queue.topic, -1)
        return [(place, bytes(record.body))]
    if record.sys_flag & INNER_BATCH:
        bodies = [bytes(entry.body) for entry in decode_batch(record.body)]
        return list(enumerate(bodies, record.queue_offset))
    return [(record.queue_offset, bytes(record.body))]
