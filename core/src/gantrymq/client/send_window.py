"""The send window of one producer at one broker: how many sends, and how many bytes, may be under way at once.

A send for which the window has no room waits in a line, and its deadline waits with it: it begins when the request is
written. So any number of sends can be begun together. Whoever waits gives up when the broker has finished no send for
as long as the send itself may take: where a broker hangs, the sends under way run out of time, and the line with them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Final

from gantrymq.errors import CallTimeout, shown_seconds
from gantrymq.world import Clock, Timer

__all__ = ["SendWindow"]

TICK_S: Final = 0.1
TOGETHER: Final = 64  # sends that are let in, or given up, in one turn of the event loop


class _Waiter:
    """A send in the line."""

    __slots__ = ("joined", "patience", "size", "timeout_s", "turn")

    def __init__(self, size: int, timeout_s: float, joined: int) -> None:
        self.size = size
        self.timeout_s = timeout_s
        self.joined = joined  # tick
        self.patience = 1 + math.ceil(timeout_s / TICK_S)  # ticks without anything moving
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class SendWindow:
    """Belongs to one producer and one broker; take, or wait, then leave.

    Time is counted in ticks while there is a line: an event loop that others keep busy makes few of them, so no broker
    is given up for what could not be read.
    """

    def __init__(self, clock: Clock, broker_name: str, most: int, most_bytes: int) -> None:
        """At most *most* sends, and *most_bytes* bytes of bodies: a larger one goes by itself."""
        self._clock = clock
        self._name = broker_name
        self._most = most
        self._most_bytes = most_bytes
        self._line: deque[_Waiter] = deque()
        self._tick = 0
        self._moved = 0  # tick in which a send was finished last
        self._shortest = 0  # patience, of all in the line
        self._due = 0  # tick in which somebody's patience may end
        self._timer: Timer | None = None
        self._going = False  # whether more of the line are let in next turn
        self.sends = 0  # under way
        self.bytes = 0

    def __len__(self) -> int:
        """How many wait, some of them no longer."""
        return len(self._line)

    def take(self, size: int) -> bool:
        """Begin a send of *size* bytes at once; False when it has to wait."""
        if self._line or not self._fits(size):
            return False
        self.sends += 1
        self.bytes += size
        return True

    async def wait(self, size: int, timeout_s: float) -> None:
        """Wait for the turn of a send of *size* bytes, which has begun then.

        Raises:
            CallTimeout: none of the broker's sends was finished for *timeout_s* seconds.
        """
        waiter = _Waiter(size, timeout_s, self._tick)
        if self._line:
            self._shortest = min(self._shortest, waiter.patience)
            self._due = min(self._due, self._tick + waiter.patience)
        else:
            self._shortest, self._due = waiter.patience, self._tick + waiter.patience
        self._line.append(waiter)
        if self._timer is None:
            self._timer = self._clock.call_later(TICK_S, self._next_tick)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self.leave(size)  # its turn came, and nobody is left to take it
            else:
                self._go_on()
            raise

    def leave(self, size: int, *, finished: bool = False) -> None:
        """End a send of *size* bytes; *finished* says that the broker has decided on it."""
        self.sends -= 1
        self.bytes -= size
        if finished:
            self._moved = self._tick
        self._go_on()

    def _fits(self, size: int) -> bool:
        return self.sends < self._most and (self.bytes + size <= self._most_bytes or not self.sends)

    def _go_on(self) -> None:
        """Look at the line in the next turn of the loop."""
        if self._line and not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._let_in)

    def _let_in(self) -> None:
        """Give their turns to those for whom there is room; some in a turn of the loop, as others run there as well."""
        self._going = False
        line, left = self._line, TOGETHER
        while line and (line[0].turn.done() or self._fits(line[0].size)):
            if not left:
                self._go_on()
                return
            waiter = line.popleft()
            if not waiter.turn.done():
                left -= 1
                self.sends += 1
                self.bytes += waiter.size
                waiter.turn.set_result(None)
        if not line and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next_tick(self) -> None:
        self._tick += 1
        self._timer = self._clock.call_later(TICK_S, self._next_tick)
        if self._tick < self._due:
            return
        if self._moved + self._shortest > self._tick:
            self._due = self._moved + self._shortest
            return
        waiting = [(max(w.joined, self._moved) + w.patience, w) for w in self._line if not w.turn.done()]
        late = deque(waiter for due, waiter in waiting if due <= self._tick)
        self._due = min((due for due, _ in waiting if due > self._tick), default=self._tick + 1)
        self._give_up(late)

    def _give_up(self, late: deque[_Waiter]) -> None:
        """Fail those whose patience is over, some in a turn of the loop."""
        for _ in range(min(TOGETHER, len(late))):
            waiter = late.popleft()
            if not waiter.turn.done():
                waiter.turn.set_exception(
                    CallTimeout(
                        f"broker {self._name} finished none of {self.sends} sends within "
                        f"{shown_seconds(waiter.timeout_s)}, and this one waited for them"
                    )
                )
        if late:
            asyncio.get_running_loop().call_soon(self._give_up, late)
        else:
            self._go_on()
