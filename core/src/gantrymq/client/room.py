"""Room for the sends of one producer at one broker: how many, and how many bytes, may be under way at once.

A send that finds no room waits in a line, and its deadline waits with it: it begins when the request is written. So any
number of sends can be begun together. Whoever waits gives up when the broker has finished no send for as long as the
send itself may take: where a broker hangs, the sends under way run out of time, and the line with them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Final

from gantrymq.errors import CallTimeout
from gantrymq.world import Clock, Timer

__all__ = ["MOST_BYTES", "MOST_SENDS", "Room"]

MOST_SENDS: Final = 512
MOST_BYTES: Final = 16 * 1024 * 1024
TOGETHER: Final = 64  # sends that are let in, or given up, in one turn of the event loop


class _Waiter:
    """A send in the line."""

    __slots__ = ("joined", "size", "timeout_s", "turn")

    def __init__(self, size: int, timeout_s: float, joined: float) -> None:
        self.size = size
        self.timeout_s = timeout_s
        self.joined = joined  # monotonic seconds
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Room:
    """Belongs to one producer and one broker; take, or wait, then leave."""

    def __init__(self, clock: Clock, broker_name: str, most: int = MOST_SENDS, most_bytes: int = MOST_BYTES) -> None:
        """At most *most* sends, and *most_bytes* bytes of bodies: a larger one goes by itself."""
        self._clock = clock
        self._name = broker_name
        self._most = most
        self._most_bytes = most_bytes
        self._line: deque[_Waiter] = deque()
        self._moved_at = clock.monotonic()  # when a send was finished last, while there is a line
        self._timer: Timer | None = None
        self._due = 0.0  # when it is due
        self._shortest_s = math.inf  # that one of the line waits without anything moving
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
        waiter = _Waiter(size, timeout_s, self._clock.monotonic())
        self._line.append(waiter)
        self._shortest_s = min(self._shortest_s, timeout_s)
        self._watch(waiter.joined + timeout_s)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self.leave(size)  # its turn came, and nobody is left to take it
            else:
                self._let_in()
            raise

    def leave(self, size: int, *, finished: bool = False) -> None:
        """End a send of *size* bytes; *finished* says that the broker has decided on it."""
        self.sends -= 1
        self.bytes -= size
        if self._line:
            if finished:
                self._moved_at = self._clock.monotonic()
            if not self._going:
                self._let_in()

    def _fits(self, size: int) -> bool:
        return self.sends < self._most and (self.bytes + size <= self._most_bytes or not self.sends)

    def _let_in(self) -> None:
        """Give their turns to those for whom there is room; some in a turn of the loop, as others run there as well."""
        self._going = False
        line, left = self._line, TOGETHER
        while line and (line[0].turn.done() or self._fits(line[0].size)):
            if not left:
                self._going = True
                asyncio.get_running_loop().call_soon(self._let_in)
                return
            waiter = line.popleft()
            if not waiter.turn.done():
                left -= 1
                self.sends += 1
                self.bytes += waiter.size
                waiter.turn.set_result(None)
        if not line:
            self._shortest_s = math.inf
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _watch(self, due: float) -> None:
        """Look at *due* at the latest whether anything has moved."""
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._clock.call_later(max(0.0, due - self._clock.monotonic()), self._look)

    def _look(self) -> None:
        """Give up those who have waited in vain for as long as they would."""
        self._timer = None
        now = self._clock.monotonic()
        if self._moved_at + self._shortest_s > now:
            self._watch(self._moved_at + self._shortest_s)
            return
        waiting = [(max(w.joined, self._moved_at) + w.timeout_s, w) for w in self._line if not w.turn.done()]
        late = deque(waiter for due, waiter in waiting if due <= now)
        if len(late) < len(waiting):
            self._watch(min(due for due, _ in waiting if due > now))
        self._give_up(late)

    def _give_up(self, late: deque[_Waiter]) -> None:
        for _ in range(min(TOGETHER, len(late))):
            waiter = late.popleft()
            if not waiter.turn.done():
                waiter.turn.set_exception(
                    CallTimeout(
                        f"broker {self._name} finished none of {self.sends} sends within {waiter.timeout_s:g} s, "
                        "and this one waited for them"
                    )
                )
        if late:
            asyncio.get_running_loop().call_soon(self._give_up, late)
        else:
            self._let_in()
