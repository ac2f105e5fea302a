"""Store times of the oldest unconsumed messages of groups, reading at most READS messages per scrape.

A store time is cached until the group moves in that queue. If more messages would have to be read, the remaining queues
keep their previous store time, which overstates their lag, and are read first the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.formats.record import read_record
from gantrymq.interfaces import Broker, GetLimit
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices

READS: Final = 2000
_TOGETHER: Final = 16  # reads before the event loop is yielded

GroupQueue = tuple[str, Queue]  # a group and a queue with unconsumed messages


class OldestMessages:
    """Store times by group and queue."""

    def __init__(self) -> None:
        self._known: dict[GroupQueue, tuple[int, int]] = {}  # queue offset and store time, ms
        self._waiting: dict[GroupQueue, None] = {}  # queues that exceeded the limit the last time

    async def store_times(self, broker: Broker, wanted: Mapping[GroupQueue, int]) -> Mapping[GroupQueue, int]:
        """Return the store time (ms) of the message at each queue offset in *wanted*, without unknown ones."""
        known = self._known = {
            group_queue: found for group_queue, found in self._known.items() if group_queue in wanted
        }
        unread = [
            group_queue for group_queue, at in wanted.items() if group_queue not in known or known[group_queue][0] != at
        ]
        first = dict.fromkeys(group_queue for group_queue in self._waiting if group_queue in wanted)
        order = list(dict.fromkeys([*(group_queue for group_queue in unread if group_queue in first), *unread]))
        self._waiting = dict.fromkeys(order[READS:])
        await self._read(broker, wanted, order[:READS])
        return {group_queue: stored_ms for group_queue, (_, stored_ms) in known.items()}

    async def _read(self, broker: Broker, wanted: Mapping[GroupQueue, int], queues: Iterable[GroupQueue]) -> None:
        slices = TimeSlices(broker.world.clock, _TOGETHER)
        for group_queue in queues:
            stored_ms = await _stored_ms(broker, group_queue[1], wanted[group_queue])
            if stored_ms is None:
                self._known.pop(group_queue, None)
            else:
                self._known[group_queue] = wanted[group_queue], stored_ms
            await slices.item_done()


async def _stored_ms(broker: Broker, queue: Queue, queue_offset: int) -> int | None:
    """Return the store time of one message, None if it cannot be read."""
    try:
        found = await broker.messages.get(queue, queue_offset, GetLimit(1))
        return read_record(found.buffers[0]).store_timestamp if found.count else None
    except GantryError:
        return None
