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
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import delay_levels_of, iter_records
from gantrymq.plugin.interfaces import BrokerStorage, GetLimit
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import TimeSlices

LOOKED_AT: Final = 500
_TOGETHER: Final = 100  # records between pauses


@attrs.define
class WaitingRetries:
    """Messages waiting for a retry of a group."""

    count: int = 0
    due_ms: int | None = None  # delivery time of the next one, wall time


async def waiting_retries(broker: BrokerStorage) -> tuple[dict[str, WaitingRetries], bool]:
    """Return the pending messages by the topic that they go to, and whether there may be more."""
    found: dict[str, WaitingRetries] = {}
    now_ms, more = broker.world.clock.now_ms(), False
    slices = TimeSlices(broker.world.clock, _TOGETHER)
    for index, delay_ms in enumerate(delay_levels_of(broker.settings)):
        queue = Queue(SCHEDULE_TOPIC, index)
        bounds = broker.store.bounds(queue)
        at = max(bounds.min_offset, bounds.max_offset - LOOKED_AT)
        cut = at > bounds.min_offset  # earlier entries may be pending too
        while at < bounds.max_offset:
            try:
                page = await broker.messages.get(queue, at, GetLimit(32))
            except GantryError:
                break
            if not page.count:
                break
            at = page.next_offset
            for record in (each for buffer in page.buffers for each in iter_records(buffer)):
                due_ms = record.store_timestamp + delay_ms
                if due_ms > now_ms:
                    more, cut = more or cut, False
                    topic = record.properties.get(props.REAL_TOPIC, "")
                    known = found.setdefault(topic, WaitingRetries())
                    known.count += 1
                    known.due_ms = due_ms if known.due_ms is None else min(known.due_ms, due_ms)
                else:
                    cut = False
                await slices.item_done()
    return found, more
