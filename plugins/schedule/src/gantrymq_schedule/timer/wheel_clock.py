"""The clock of the timer wheel: the slot of a message, the due slots, and when a long wait needs another round.

A tick is a time divided by the precision. Slot t is due when tick t + 1 begins.

    ... delivered ... | read_tick ... due ... | write_tick ... messages are added, at most one window ahead ...

- A message waits in the slot of its due time, but never before `write_tick`.
- A message that waits for a window or longer is put into a slot within the window and rolled from there (`rolls`). So
  two weeks of slots are enough, and a slot never holds two times.
- `write_tick` follows the wall clock, but never goes back, and is at most a week ahead of the saved `read_tick`: the
  wheel is read first. If `enqueue` finishes before `advance`, every message and every recall is in its slot before that
  slot is due, and after a crash no slot that is read again holds another time.
- While no message arrives, `write_tick` does not move; the window begins where it will be next. `read_tick` is saved
  every `IDLE_TICKS`; otherwise a window could not begin at the present time after idle weeks.
- If the clock is set back by more than a slot, everything before `write_tick` is delivered, its slots are emptied, and
  the wheel begins again at the present slot (`begin_at`). By up to a slot, messages are late: they wait in the slot of
  `write_tick`.

Messages are counted by slot in memory only while ``timerCongestNumEachSlot`` sets a limit, with four bytes a slot. A
limit that is set while the broker runs applies from the next turn of the timers.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (doEnqueue, putMessageToTimerWheel, dequeue, recover).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq_schedule import settings as keys
from gantrymq_schedule.timer.wheel_files import NewEntry, WheelFiles
from gantrymq_store_files.timer_log import DELETE
from gantrymq_store_files.timer_wheel import SLOTS

_HIGHEST = 2**31 - 1
REACH = SLOTS // 2  # ticks that write_tick may be ahead of read_tick
MOST_WINDOW = SLOTS // 2 - 60
IDLE_TICKS = REACH // 4  # empty slots that `read_tick` may pass without a save


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


class SlotPlacement(NamedTuple):
    """The slot of a message."""

    tick: int
    rolls: bool  # whether the message is rolled to a later slot from there


def accepted_ms(deliver_ms: int, precision_ms: int) -> int:
    """Return the slot time for a message due at *deliver_ms*: the tick before it, as a slot is due one tick later."""
    return (deliver_ms - 1) // precision_ms * precision_ms


class WheelClock:
    """Position of one wheel."""

    def __init__(self, precision_ms: int, window: int, read_tick: int) -> None:
        """Begin at *read_tick*, the first slot that was not delivered.

        A *window*, in ticks, outside 2 to `MOST_WINDOW` means `MOST_WINDOW`.
        """
        self.precision_ms = precision_ms
        self.window = window if 2 <= window <= MOST_WINDOW else MOST_WINDOW
        self.read_tick = read_tick
        self.write_tick = read_tick
        self.saved_tick = read_tick  # saved `read_tick`, where a start after a crash begins
        self._held = False  # whether `write_tick` waits for a save

    def begin_at(self, read_tick: int) -> None:
        """Restart at *read_tick*."""
        self.read_tick = self.write_tick = self.saved_tick = read_tick

    def was_set_back(self, now_ms: int) -> bool:
        """Return whether the wall clock is before `write_tick` by more than a slot."""
        return now_ms // self.precision_ms < self.write_tick - 1

    @property
    def write_ms(self) -> int:
        """Time of the first slot that accepts messages."""
        return self.write_tick * self.precision_ms

    def advance(self, now_ms: int) -> None:
        """Make the slots before *now_ms* due; every message that arrived before must be in its slot."""
        self._held = now_ms // self.precision_ms > self.saved_tick + REACH
        self.write_tick = self._write_tick_at(now_ms)

    def _write_tick_at(self, now_ms: int) -> int:
        return max(self.write_tick, min(now_ms // self.precision_ms, self.saved_tick + REACH))

    @property
    def held(self) -> bool:
        """Whether everything up to `write_tick` is delivered, and a save is needed to advance."""
        return self._held and self.read_tick >= self.write_tick

    @property
    def far(self) -> bool:
        """Whether `read_tick` is so far ahead of the saved one that it has to be saved."""
        return self.read_tick - self.saved_tick > IDLE_TICKS

    def place(self, due_ms: int, now_ms: int) -> SlotPlacement | None:
        """Return the slot of a message with the slot time *due_ms*; None if its slot is past."""
        tick = due_ms // self.precision_ms
        if tick < self.write_tick:
            if now_ms >= due_ms + self.precision_ms:
                return None
            tick = self.write_tick
        begin = self._write_tick_at(now_ms)  # not `write_tick`, which does not move while no message arrives
        excess = tick - begin - self.window
        if excess < 0:
            return SlotPlacement(tick, rolls=False)
        if excess < self.window // 3:  # otherwise the next round would be short
            return SlotPlacement(begin + self.window // 2, rolls=True)
        return SlotPlacement(begin + self.window, rolls=True)

    def next_due(self, busy_tick: int) -> int | None:
        """Return the slot to deliver now, None if none is due; *busy_tick* is the first slot that holds a message.

        The position moves over the empty slots before it.
        """
        self.read_tick = max(self.read_tick, min(busy_tick, self.write_tick))
        return busy_tick if busy_tick < self.write_tick else None

    def delivered(self, tick: int) -> None:
        """Mark the due slot *tick* as delivered completely."""
        self.read_tick = max(self.read_tick, tick + 1)
