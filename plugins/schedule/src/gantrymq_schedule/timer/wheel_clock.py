"""The timer wheel as a clock: in which slot a message waits, which slots are due, when a long wait goes round again.

A tick is a time divided by the precision. Slot t is due when tick t + 1 begins.

    ... delivered ... | read_tick ... due ... | write_tick ... messages come in, at most one window ahead ...

- A message waits in the slot of its due time, never in one before `write_tick`.
- What waits for a window or longer goes into a slot within the window and from there round again (`rolls`): so two
  weeks of slots are enough, and a slot never holds two times.
- `write_tick` follows the wall clock, but neither back nor further than a week ahead of the `read_tick` that was saved:
  the wheel is read up first. So whoever lets `take_in` finish before `advance` has every message, and every recall, in
  its slot before that slot is due, and after a crash no slot that is read again holds another time by now.
- While nothing comes `write_tick` stands still; the window begins where it will be next. What was read is saved each
  `IDLE_TICKS`, or a window could not begin at the present after idle weeks.
- A clock that was set back makes messages late by as much, not early: they wait in the slot of `write_tick`. One that
  is back by more than the longest delay was wrong before: messages do not wait for it.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (doEnqueue, putMessageToTimerWheel, dequeue, recover).
"""

from __future__ import annotations

from typing import NamedTuple

from gantrymq_store_files.timer_wheel import SLOTS

__all__ = ["IDLE_TICKS", "MOST_WINDOW", "REACH", "Place", "WheelClock", "accepted_ms"]

REACH = SLOTS // 2  # ticks that write_tick may be ahead of read_tick
MOST_WINDOW = SLOTS // 2 - 60
IDLE_TICKS = REACH // 4  # that `read_tick` goes over empty slots without a saving


class Place(NamedTuple):
    """Where a message waits."""

    tick: int
    rolls: bool  # it goes round again from there


def accepted_ms(deliver_ms: int, precision_ms: int) -> int:
    """The slot time of a message for *deliver_ms*: the tick before it, as a slot is due one tick later."""
    return (deliver_ms - 1) // precision_ms * precision_ms


class WheelClock:
    """One wheel's position."""

    def __init__(self, precision_ms: int, window: int, read_tick: int, longest_ms: int) -> None:
        """Begin at *read_tick*, the first slot that was not delivered.

        Args:
            window: ticks; out of 2 to `MOST_WINDOW` means `MOST_WINDOW`.
            longest_ms: the longest delay that is taken.
        """
        self.precision_ms = precision_ms
        self.window = window if 2 <= window <= MOST_WINDOW else MOST_WINDOW
        self.read_tick = read_tick
        self.write_tick = read_tick
        self.saved_tick = read_tick  # the `read_tick` that a start after a crash begins at
        self._held = False  # `write_tick` waits for a saving
        self._longest_ms = longest_ms

    def begin_at(self, read_tick: int) -> None:
        """Begin anew at *read_tick*."""
        self.read_tick = self.write_tick = self.saved_tick = read_tick

    @property
    def write_ms(self) -> int:
        """Time of the first slot that takes messages."""
        return self.write_tick * self.precision_ms

    def advance(self, now_ms: int) -> None:
        """Let the slots before *now_ms* be due; everything that came before is in its slot."""
        self._held = now_ms // self.precision_ms > self.saved_tick + REACH
        self.write_tick = self._write_tick_at(now_ms)

    def _write_tick_at(self, now_ms: int) -> int:
        return max(self.write_tick, min(now_ms // self.precision_ms, self.saved_tick + REACH))

    @property
    def held(self) -> bool:
        """Whether everything up to `write_tick` is out, and a saving lets it go on."""
        return self._held and self.read_tick >= self.write_tick

    @property
    def far(self) -> bool:
        """Whether `read_tick` is so far ahead of the one that was saved that it is to be saved."""
        return self.read_tick - self.saved_tick > IDLE_TICKS

    def place(self, due_ms: int, now_ms: int) -> Place | None:
        """Where a message whose slot time is *due_ms* waits; None: it does not, its slot is past."""
        tick = due_ms // self.precision_ms
        if tick < self.write_tick:
            ahead_ms = self.write_ms - now_ms
            if now_ms >= due_ms + self.precision_ms or ahead_ms > self._longest_ms:
                return None
            tick = self.write_tick
        begin = self._write_tick_at(now_ms)  # not `write_tick`, which stood still while nothing came
        excess = tick - begin - self.window
        if excess < 0:
            return Place(tick, rolls=False)
        if excess < self.window // 3:  # or the next round would be a short one
            return Place(begin + self.window // 2, rolls=True)
        return Place(begin + self.window, rolls=True)

    def next_due(self, busy_tick: int) -> int | None:
        """The slot to deliver now, *busy_tick* being the first that holds something; None: nothing is due.

        The position moves over the empty slots before it.
        """
        self.read_tick = max(self.read_tick, min(busy_tick, self.write_tick))
        return busy_tick if busy_tick < self.write_tick else None

    def delivered(self, tick: int) -> None:
        """Everything of the due slot *tick* is out."""
        self.read_tick = max(self.read_tick, tick + 1)
