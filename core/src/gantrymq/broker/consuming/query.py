"""Looking up a message by the log offset of its offset id, and store times.

Only the store is used, so messages of deleted topics can be found while they are in the log.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gantrymq.errors import RequestRefused
from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import GetLimit, GetResult, MessageStore
from gantrymq.model.queue import Queue

View = Callable[[int], RecordView | Awaitable[RecordView | None] | None]  # `StoreCapabilities.view`


async def view_message(store: MessageStore, view: View, log_offset: int) -> RecordView:
    """Return the message at *log_offset*.

    Raises:
        RequestRefused: code 1, no message starts there.
        StoreError: the disk cannot be read.
    """
    found = view(log_offset)
    record = found if found is None or isinstance(found, RecordView) else await found
    if record is None:
        state = store.state()
        raise RequestRefused(
            1,
            f"no message starts at log offset {log_offset}; the log holds {state.min_log_offset} to "
            f"{state.published_offset}",
        )
    return record


async def store_time_at(store: MessageStore, queue: Queue, queue_offset: int) -> int:
    """Return the store time (ms) of one message of a queue; -1 if there is none."""
    found = store.get(queue, queue_offset, GetLimit(1), None)
    result = found if isinstance(found, GetResult) else await found
    if not result.buffers:
        return -1
    return read_record(result.buffers[0]).store_timestamp
