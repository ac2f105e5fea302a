"""Rebuilds queue entries that a reader found to be impossible, before the reader gets its answer.

All readers of one hole wait for the same repair. The result is trusted for a while: if the log has lost a message too,
readers then skip it, and it is logged once.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from operator import add
from typing import Final

import attrs

from gantrymq.world import Clock
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.recovery.queue_repair import QueueRepair, RebuiltEntries, RepairView, repair_summary
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_pre_blank

__all__ = ["EntryRepairer", "impossible", "is_impossible"]

AGAIN_S: Final = 60.0  # minimum time between two repairs of a file

_Place = tuple[ConsumeQueue | BatchQueue, int]  # a queue and the number of one of its files


@attrs.define(eq=False)
class EntryRepairer:
    """Rebuilds entries while the store runs. All methods belong to the event loop."""

    _queue_repair: QueueRepair
    _workers: BoundedWorkers
    _clock: Clock
    _publisher: Publisher
    _report: Callable[[str], object]
    _running: dict[_Place, asyncio.Task[None]] = attrs.field(factory=dict, init=False)
    _repaired_at: dict[_Place, float] = attrs.field(factory=dict, init=False)  # monotonic times

    def can_repair(self, queue: ConsumeQueue | BatchQueue, number: int) -> bool:
        """Return whether `repair` of that entry may help."""
        done = self._repaired_at.get(self._place(queue, number))
        return not queue.dropped and (done is None or self._clock.monotonic() - done > AGAIN_S)

    async def repair(self, queue: ConsumeQueue | BatchQueue, number: int, *, certain: bool = True) -> None:
        """Rebuild the entries around *number*; if not *certain*, only if the entry and not its record is damaged.

        Raises:
            StoreError: the disk failed.
        """
        place = self._place(queue, number)
        task = self._running.get(place)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._repair(place, queue, number, certain))
            self._running[place] = task
        await asyncio.shield(task)

    def _place(self, queue: ConsumeQueue | BatchQueue, number: int) -> _Place:
        return queue, number // RepairView.per_file_of(queue)

    async def _repair(self, place: _Place, queue: ConsumeQueue | BatchQueue, number: int, certain: bool) -> None:
        try:
            with self._workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be rebuilt"):
                view, end = RepairView(queue), self._publisher.published_offset
                made = await self._workers.run(partial(self._find, view, number, end, certain=certain))
                if queue.dropped:
                    return
                for each in made:
                    each.write()
            if (sentence := repair_summary(made)) is not None:
                self._report(sentence)
            self._repaired_at[place] = self._clock.monotonic()
            for gone in [each for each in self._repaired_at if each[0].dropped]:
                del self._repaired_at[gone]
        finally:
            del self._running[place]

    def _find(self, view: RepairView, number: int, log_end: int, *, certain: bool) -> list[RebuiltEntries]:
        """Runs in a thread."""
        made = self._queue_repair.make(self._queue_repair.hole_at(view, number, log_end, certain=certain))
        return [each for each in made if certain or not each.already_listed()]


def is_impossible(log_offset: int, size: int, log_end: int) -> bool:
    """Return whether an entry refers to data that was never in the log: the entry was lost or overwritten."""
    return (size <= 0 or log_offset < 0 or log_offset + size > log_end) and not is_pre_blank(log_offset, size)


def impossible(entries: bytes, log_end: int) -> int | None:
    """Return the index of the first impossible one of packed *entries*. Budget: 0.06 us an entry."""
    count = len(entries) // ENTRY_BYTES
    places = _places(count).unpack_from(entries)
    offsets, sizes = places[::2], places[1::2]
    if count and min(sizes) > 0 and min(offsets) >= 0 and max(map(add, offsets, sizes)) <= log_end:
        return None
    for index, (log_offset, size, _) in enumerate(ENTRY.iter_unpack(entries[: count * ENTRY_BYTES])):
        if is_impossible(log_offset, size, log_end):
            return index
    return None


@lru_cache(maxsize=64)
def _places(count: int) -> struct.Struct:
    """Return the struct that unpacks log offset and size of each of *count* packed entries."""
    return struct.Struct(">" + "qi8x" * count)
