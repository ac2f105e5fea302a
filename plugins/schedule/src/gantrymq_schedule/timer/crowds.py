"""How many messages wait in each slot, in memory while ``timerCongestNumEachSlot`` sets a limit: four bytes a slot.

Without a limit nothing is kept. One that is set while the broker runs counts from the next turn of the timers on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from gantrymq.interfaces import Broker
from gantrymq_schedule.timer import settings as keys
from gantrymq_schedule.timer.wheel_files import NewEntry, WheelFiles
from gantrymq_store_files.timer_log import DELETE
from gantrymq_store_files.timer_wheel import SLOTS

__all__ = ["Crowds"]

_HIGHEST = 2**31 - 1


class Crowds:
    """One wheel's counts; between two calls of `follow` they change with `taken` and `emptied`."""

    def __init__(self, broker: Broker, files: WheelFiles) -> None:
        """Nothing is counted yet."""
        self._broker = broker
        self._files = files
        self._counts: array[int] | None = None

    async def follow(self, read_tick: int) -> None:
        """Begin to count where there is a limit now, and end it where there is none. Nothing may be appended meanwhile.

        Raises:
            OSError: the wheel cannot be read.
        """
        limited = self._broker.settings.number(keys.MOST_IN_SLOT) != keys.NO_LIMIT
        if limited and self._counts is None:
            self._counts = await self._broker.world.workers.run(_counted, self._files, read_tick)
        elif not limited:
            self._counts = None

    def count(self, tick: int, read_tick: int) -> int:
        """Messages in the slot of *tick*; 0 for one that is not within a turn of the wheel, or not known."""
        within = self._counts is not None and read_tick <= tick < read_tick + SLOTS
        return self._counts[tick % SLOTS] if within and self._counts is not None else 0

    def taken(self, entries: Sequence[NewEntry]) -> None:
        """*entries* are in their slots."""
        counts = self._counts
        if counts is not None:
            for entry in entries:
                counts[entry.tick % SLOTS] += -1 if entry.magic & DELETE else 1

    def emptied(self, tick: int) -> None:
        """Nothing is in the slot of *tick* any more."""
        if self._counts is not None:
            self._counts[tick % SLOTS] = 0


def _counted(files: WheelFiles, read_tick: int) -> array[int]:
    """For a thread."""
    counts = array("i", bytes(4 * SLOTS))
    for slot in files.busy(read_tick, read_tick + SLOTS):
        counts[slot.tick % SLOTS] = min(slot.count, _HIGHEST)
    return counts
