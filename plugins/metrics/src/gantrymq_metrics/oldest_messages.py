"""When the oldest messages that groups have before them were stored, with at most READS messages read at a time.

What was read stays known for as long as the group does not move on in that queue. Where more would have to be read than
may be, the others keep what was known of them, which is earlier and makes them look later than they are, and come first
the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.formats.record import read_record
from gantrymq.interfaces import Broker, GetLimit
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices

__all__ = ["READS", "GroupQueue", "OldestMessages"]

READS: Final = 2000
_TOGETHER: Final = 16  # reads without a pause

GroupQueue = tuple[str, Queue]  # a group and a queue that it is behind on


class OldestMessages:
    """Store times by group and queue."""

    def __init__(self) -> None:
        self._known: dict[GroupQueue, tuple[int, int]] = {}  # queue offset and store time, ms
        self._waiting: dict[GroupQueue, None] = {}  # that the reads did not suffice for the last time

    async def store_times(self, broker: Broker, wanted: Mapping[GroupQueue, int]) -> Mapping[GroupQueue, int]:
        """Store time (ms) of each place's message at the queue offset in *wanted*; without those that are not known."""
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
    """Store time of one message, None where it cannot be read."""
    try:
        found = await broker.get(queue, queue_offset, GetLimit(1))
        return read_record(found.buffers[0]).store_timestamp if found.count else None
    except GantryError:
        return None
