"""Messages in the delay levels waiting for a retry of a group: a bounded read of the ends of the levels' queues.

Entries of a level are in the order of their delivery times, so pending ones are at the end of its queue. The last
LOOKED_AT entries of each level are read.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java (messageDelayLevel),
broker/.../schedule/ScheduleMessageService.java (parseDelayLevel).
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import delay_levels_of
from gantrymq.interfaces import Broker, GetLimit
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC, retry_topic
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices

LOOKED_AT: Final = 500
_TOGETHER: Final = 100  # records between pauses


@attrs.frozen
class WaitingRetries:
    """Messages waiting for a retry of a group."""

    count: int
    more: bool  # whether there may be more
    due_ms: int | None  # delivery time of the next one, wall time


async def waiting_retries(broker: Broker, group: str) -> WaitingRetries:
    """Count pending messages."""
    wanted, now_ms = retry_topic(group), broker.world.clock.now_ms()
    slices = TimeSlices(broker.world.clock, _TOGETHER)
    count, more, first_ms = 0, False, None
    for index, delay_ms in enumerate(delay_levels_of(broker.settings)):
        queue = Queue(SCHEDULE_TOPIC, index)
        bounds = broker.store.bounds(queue)
        at = max(bounds.min_offset, bounds.max_offset - LOOKED_AT)
        cut = at > bounds.min_offset  # earlier entries may be pending too
        while at < bounds.max_offset:
            try:
                found = await broker.messages.get(queue, at, GetLimit(32))
            except GantryError:
                break
            if not found.count:
                break
            at = found.next_offset
            for record in (each for buffer in found.buffers for each in iter_records(buffer)):
                due_ms = record.store_timestamp + delay_ms
                if due_ms > now_ms:
                    more, cut = more or cut, False
                    if record.properties.get(props.REAL_TOPIC) == wanted:
                        count += 1
                        first_ms = due_ms if first_ms is None else min(first_ms, due_ms)
                else:
                    cut = False
                await slices.item_done()
    return WaitingRetries(count, more, first_ms)
