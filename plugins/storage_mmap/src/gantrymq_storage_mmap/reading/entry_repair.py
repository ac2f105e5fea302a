"""Rebuilds queue entries that a reader found to be wrong, before the reader gets its answer.

An impossible entry is rebuilt with its whole file. If a record was refused, either the record or its entry is damaged:
between right entries, only that entry is rebuilt. All readers of one hole wait for the same repair. The result is
trusted for a while: if the log has lost a message too, readers then skip it, and it is logged once.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from operator import add
from typing import Final

import attrs

from gantrymq.plugin.world import Clock
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.recovery.queue_repair import QueueRepair, RebuiltEntries, RepairView, repair_summary
from gantrymq_store_files.queue_entry import ENTRY_BYTES, is_pre_blank

AGAIN_S: Final = 60.0  # minimum time between two repairs of a file, or of a single entry

# A queue, and the number of one of its files, or of an entry; whether it is an entry.
_Place = tuple[ConsumeQueue | BatchQueue, int, bool]


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

    def can_repair(self, queue: ConsumeQueue | BatchQueue, number: int, *, certain: bool = True) -> bool:
        """Return whether `repair` of that entry may help."""
        done = self._repaired_at.get(self._place(queue, number, certain=certain))
        return not queue.dropped and (done is None or self._clock.monotonic() - done > AGAIN_S)

    async def repair(self, queue: ConsumeQueue | BatchQueue, number: int, *, certain: bool = True) -> None:
        """Rebuild the entries around *number*; if not *certain*, only if the entry and not its record is damaged.

        Raises:
            StoreError: the disk failed.
        """
        place = self._place(queue, number, certain=certain)
        task = self._running.get(place)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._repair(place, queue, number, certain))
            self._running[place] = task
        await asyncio.shield(task)

    def _place(self, queue: ConsumeQueue | BatchQueue, number: int, *, certain: bool) -> _Place:
        return (queue, number // RepairView.per_file_of(queue), False) if certain else (queue, number, True)

    async def _repair(self, place: _Place, queue: ConsumeQueue | BatchQueue, number: int, certain: bool) -> None:
        try:
            with self._workers.reading(f"queue {queue.topic}/{queue.queue_id} cannot be rebuilt"):
                view, end = RepairView(queue), self._publisher.published_offset
                whole = certain or self.can_repair(queue, number)
                made, of_file = await self._workers.run(
                    partial(self._find, view, number, end, certain=certain, whole=whole)
                )
                if queue.dropped:
                    return
                for each in made:
                    each.write()
            if (sentence := repair_summary(made)) is not None:
                self._report(sentence)
            self._note(place)
            if of_file and not certain:
                self._note(self._place(queue, number, certain=True))
        finally:
            del self._running[place]

    def _note(self, place: _Place) -> None:
        """Note that *place* was repaired now, and forget places that may be repaired again."""
        now = self._clock.monotonic()
        self._repaired_at.pop(place, None)
        self._repaired_at[place] = now  # the latest last
        while now - self._repaired_at[oldest := next(iter(self._repaired_at))] > AGAIN_S:
            del self._repaired_at[oldest]

    def _find(
        self, view: RepairView, number: int, log_end: int, *, certain: bool, whole: bool
    ) -> tuple[list[RebuiltEntries], bool]:
        """Return rebuilt entries, and whether they are those of a file, which needs *whole*. Runs in a thread."""
        repair = self._queue_repair
        if certain:
            return repair.make(repair.hole_at(view, number, log_end)), True
        if repair.is_alone(view, number, log_end):
            holes, whole = repair.hole_of_one(view, number, log_end), False
        else:
            holes = repair.hole_at(view, number, log_end) if whole else []
        return [each for each in repair.make(holes) if not each.already_listed()], whole


def is_impossible(log_offset: int, size: int, log_end: int) -> bool:
    """Return whether an entry refers to data that was never in the log: the entry was lost or overwritten."""
    return (size <= 0 or log_offset < 0 or log_offset + size > log_end) and not is_pre_blank(log_offset, size)


def impossible(entries: bytes, log_end: int) -> int | None:
    """Return the index of the first impossible one of packed *entries*; they must be in log order, too.

    Budget: 0.07 us an entry.
    """
    count = len(entries) // ENTRY_BYTES
    places = _places(count).unpack_from(entries)
    offsets, sizes = places[::2], places[1::2]
    ordered = offsets == tuple(sorted(offsets))
    if ordered and count and min(sizes) > 0 and offsets[0] >= 0 and max(map(add, offsets, sizes)) <= log_end:
        return None
    before = 0
    for index, (log_offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if is_impossible(log_offset, size, log_end) or log_offset < before:
            return index
        before = log_offset
    return None


@lru_cache(maxsize=64)
def _places(count: int) -> struct.Struct:
    """Return the struct that unpacks log offset and size of each of *count* packed entries."""
    return struct.Struct(">" + "qi8x" * count)
