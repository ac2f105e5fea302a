"""Reading half and op messages from the store, in slices."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from gantrymq.plugin.formats import RecordView, iter_records
from gantrymq.plugin.interfaces import BrokerStorage, GetLimit, GetStatus
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import HALF_TOPIC, OP_TOPIC
from gantrymq.plugin.world import TimeSlices

HALF_QUEUE: Final = Queue(HALF_TOPIC, 0)
OP_QUEUE: Final = Queue(OP_TOPIC, 0)
SLICE: Final = 32  # messages of one read, as a Java broker reads op messages
_SLICE_BYTES: Final = 4 * 1024 * 1024


async def view(broker: BrokerStorage, log_offset: int) -> RecordView | None:
    """Return the record at *log_offset*, reading the disk if needed; None if no record starts there."""
    if log_offset < 0:
        return None
    found = broker.store_capabilities.view(log_offset)
    if inspect.isawaitable(found):
        return await found
    return found


async def read_from(
    broker: BrokerStorage, queue: Queue, start: int, end: int, slices: TimeSlices, most: int = SLICE
) -> AsyncIterator[RecordView]:
    """Yield the messages of *queue* in [start, end), skipping those deleted from the log.

    Args:
        broker: the broker to read from.
        queue: the queue to read.
        start: first queue offset.
        end: queue offset after the last message.
        slices: yields to the event loop between messages.
        most: messages per read.
    """
    while start < end:
        found = await broker.messages.get(queue, start, GetLimit(min(most, end - start), _SLICE_BYTES))
        if found.status is not GetStatus.FOUND:
            if found.next_offset <= start:
                return
            start = found.next_offset
            continue
        for record in _records(found.buffers):
            if record.queue_offset >= end:
                return
            start = record.queue_offset + 1
            yield record
            await slices.item_done()


async def read_these(
    broker: BrokerStorage, queue: Queue, offsets: Sequence[int], slices: TimeSlices
) -> AsyncIterator[RecordView]:
    """Yield the messages at ascending *offsets*; consecutive ones are read together."""
    first = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            async for record in read_from(broker, queue, offsets[first], offsets[index - 1] + 1, slices):
                yield record
            first = index


def _records(buffers: Sequence[bytes | memoryview]) -> Iterator[RecordView]:
    for buffer in buffers:
        yield from iter_records(buffer)
