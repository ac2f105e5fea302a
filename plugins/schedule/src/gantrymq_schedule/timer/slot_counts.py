"""In-memory message counts of the slots, kept only while ``timerCongestNumEachSlot`` sets a limit: four bytes a slot.

A limit that is set while the broker runs applies from the next turn of the timers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq_schedule.timer import settings as keys
from gantrymq_schedule.timer.wheel_files import NewEntry, WheelFiles
from gantrymq_store_files.timer_log import DELETE
from gantrymq_store_files.timer_wheel import SLOTS

_HIGHEST = 2**31 - 1


class SlotCounts:
    """Message counts of one wheel; between two calls of `apply_limit` they change by `taken` and `cleared`."""

    def __init__(self, broker: BrokerEnvironment, files: WheelFiles) -> None:
        """Create it without counts."""
        self._broker = broker
        self._files = files
        self._counts: array[int] | None = None

    async def apply_limit(self, read_tick: int) -> None:
        """Start counting if a limit is set now, stop if none is. No entry may be appended meanwhile.

        Raises:
            OSError: the wheel cannot be read.
        """
        limited = self._broker.settings.number(keys.MOST_IN_SLOT) != keys.NO_LIMIT
        if limited and self._counts is None:
            self._counts = await self._broker.world.workers.run(_counted, self._files, read_tick)
        elif not limited:
            self._counts = None

    def count(self, tick: int, read_tick: int) -> int:
        """Return the number of messages in the slot of *tick*; 0 if beyond one turn of the wheel or not counted."""
        within = self._counts is not None and read_tick <= tick < read_tick + SLOTS
        return self._counts[tick % SLOTS] if within and self._counts is not None else 0

    def taken(self, entries: Sequence[NewEntry]) -> None:
        """Count *entries*, which were appended to their slots."""
        counts = self._counts
        if counts is not None:
            for entry in entries:
                counts[entry.tick % SLOTS] += -1 if entry.magic & DELETE else 1

    def cleared(self, tick: int) -> None:
        """Reset the count of the slot of *tick*, which was emptied."""
        if self._counts is not None:
            self._counts[tick % SLOTS] = 0


def _counted(files: WheelFiles, read_tick: int) -> array[int]:
    """Count the messages of all slots. Runs in a worker."""
    counts = array("i", bytes(4 * SLOTS))
    for slot in files.busy(read_tick, read_tick + SLOTS):
        counts[slot.tick % SLOTS] = min(slot.count, _HIGHEST)
    return counts
