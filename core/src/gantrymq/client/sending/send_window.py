"""Send window of one producer at one broker: limits the number and bytes of sends in flight.

A send that does not fit waits in a queue, and its deadline does not start before its request is written, so any number
of sends can be started concurrently. A waiting send gives up if the broker has finished no send for as long as its own
timeout: if a broker hangs, the sends in flight time out, and the waiting ones with them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Final

from gantrymq.errors import CallTimeout, format_seconds
from gantrymq.world import Clock, Timer

_TICK_S: Final = 0.1
TOGETHER: Final = 64  # maximum sends admitted or failed per turn of the event loop


class _Waiter:
    """A waiting send."""

    __slots__ = ("joined", "patience", "size", "timeout_s", "turn")

    def __init__(self, size: int, timeout_s: float, joined: int) -> None:
        self.size = size
        self.timeout_s = timeout_s
        self.joined = joined  # tick
        self.patience = 1 + math.ceil(timeout_s / _TICK_S)  # ticks without progress
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class SendWindow:
    """Window of one producer and one broker. Call `take` or `wait`, then `leave`.

    While sends are waiting, time is counted in ticks: a busy event loop produces few of them, so that responses which
    could not be read yet do not count against the broker.
    """

    def __init__(self, clock: Clock, broker_name: str, most: int, most_bytes: int) -> None:
        """Limit to *most* sends and *most_bytes* bytes of bodies; a larger body is sent alone."""
        self._clock = clock
        self._name = broker_name
        self._most = most
        self._most_bytes = most_bytes
        self._line: deque[_Waiter] = deque()
        self._tick = 0
        self._moved = 0  # tick of the last finished send
        self._shortest = 0  # lowest patience of the waiting sends
        self._due = 0  # next tick in which patience may run out
        self._timer: Timer | None = None
        self._going = False  # whether admission continues in the next turn
        self.sends = 0  # in flight
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of waiting sends, including cancelled ones."""
        return len(self._line)

    def take(self, size: int) -> bool:
        """Start a send of *size* bytes at once; return False if it has to wait."""
        if self._line or not self._fits(size):
            return False
        self.sends += 1
        self.bytes += size
        return True

    async def wait(self, size: int, timeout_s: float) -> None:
        """Wait for the turn of a send of *size* bytes, which has then started.

        Raises:
            CallTimeout: the broker finished no send for *timeout_s* seconds.
        """
        waiter = _Waiter(size, timeout_s, self._tick)
        if self._line:
            self._shortest = min(self._shortest, waiter.patience)
            self._due = min(self._due, self._tick + waiter.patience)
        else:
            self._shortest, self._due = waiter.patience, self._tick + waiter.patience
        self._line.append(waiter)
        if self._timer is None:
            self._timer = self._clock.call_later(_TICK_S, self._next_tick)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self.leave(size)  # admitted, but cancelled at the same time
            else:
                self._go_on()
            raise

    def leave(self, size: int, *, finished: bool = False) -> None:
        """End a send of *size* bytes; *finished* if the broker has answered it."""
        self.sends -= 1
        self.bytes -= size
        if finished:
            self._moved = self._tick
        self._go_on()

    def _fits(self, size: int) -> bool:
        return self.sends < self._most and (self.bytes + size <= self._most_bytes or not self.sends)

    def _go_on(self) -> None:
        """Schedule admission in the next turn of the loop."""
        if self._line and not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._let_in)

    def _let_in(self) -> None:
        """Admit waiting sends that fit; a limited number per turn, so that other tasks can run."""
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
        self._timer = self._clock.call_later(_TICK_S, self._next_tick)
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
        """Fail the sends whose patience ran out, a limited number per turn of the loop."""
        for _ in range(min(TOGETHER, len(late))):
            waiter = late.popleft()
            if not waiter.turn.done():
                waiter.turn.set_exception(
                    CallTimeout(
                        f"broker {self._name} finished none of {self.sends} sends within "
                        f"{format_seconds(waiter.timeout_s)}, and this one waited for them"
                    )
                )
        if late:
            asyncio.get_running_loop().call_soon(self._give_up, late)
        else:
            self._go_on()
