"""Turns to make long answers for one peer, so that no more of them are in memory than it reads.

A peer may ask for hundreds of answers of a megabyte each and read none. Requests that may have long answers (pulls,
pops, look-ups) therefore wait for a turn before anything is read for them: while too much is unwritten
(`WriteBuffer.full`), and while the answers that are being made would fill the buffer. Turns are given in the order in
which they were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, TypeVar

from gantrymq.errors import ConnectionLost
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer

__all__ = ["LOOK_S", "MOST_WAITING_TURNS", "AnswerTurns"]

T = TypeVar("T")

MOST_WAITING_TURNS: Final = 256  # requests that wait for a turn while more are read
MOST_AT_ONCE: Final = 64  # answers that are made at the same time, if they are short
LOOK_S: Final = 0.05  # between looks where no event tells that there is room


class AnswerTurns:
    """Belongs to one connection."""

    def __init__(
        self,
        clock: Clock,
        writes: WriteBuffer,
        peer: Callable[[], str],
        pause: Callable[[], object],
        resume: Callable[[], object],
    ) -> None:
        """*writes* takes the answers; *pause* and *resume* say whether more requests are to be read."""
        self._clock = clock
        self._writes = writes
        self._peer = peer
        self._pause = pause
        self._resume = resume
        self._under_way = 0
        self._waiting: dict[asyncio.Future[None], None] = {}  # a deque would take 760 bytes of each connection
        self._going = False  # whether `go_on` will be called in a turn to come
        self._timer: Timer | None = None

    @property
    def crowded(self) -> bool:
        """Whether work has to wait for its turn."""
        return bool(self._waiting) or not self._room()

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a turn, then for *work*, which makes one answer; write that before the next await.

        Raises:
            ConnectionLost: the connection closed before the turn came; *work* was not begun if it is a coroutine.
        """
        try:
            await self._begun()
            try:
                return await work
            finally:
                self._ended()
        finally:
            if isinstance(work, Coroutine):
                work.close()

    async def _begun(self) -> None:
        if self._writes.closed:
            raise self._gone()
        if not self.crowded:
            self._under_way += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        if len(self._waiting) > MOST_WAITING_TURNS:
            self._pause()
        self.go_on()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._ended()
            raise

    def go_on(self) -> None:
        """Give turns while there is room."""
        self._going = False
        waiting = self._waiting
        if not waiting:
            return
        tight = self._writes.tight  # asked before `_room`, as an answer may be another a moment later
        while waiting and ((turn := next(iter(waiting))).done() or self._room()):
            del waiting[turn]
            if not turn.done():  # it is not cancelled
                self._under_way += 1
                turn.set_result(None)
        if len(waiting) <= MOST_WAITING_TURNS // 2:
            self._resume()
        if waiting and not self._under_way and self._timer is None and (tight or self._writes.tight):
            self._timer = self._clock.call_later(LOOK_S, self._look)

    def soon(self) -> None:
        """Go on in the next turn of the loop: then what was just handed over has been tried to be written."""
        if self._waiting and not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self.go_on)

    def lost(self) -> None:
        """The connection is gone: nobody who waits gets a turn."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for turn in waiting:
            if not turn.done():
                turn.set_exception(self._gone())

    def _room(self) -> bool:
        writes, under_way = self._writes, self._under_way
        if not under_way:
            return not writes.full
        return under_way < MOST_AT_ONCE and writes.has_room_for((under_way + 1) * writes.long_bytes)

    def _ended(self) -> None:
        self._under_way -= 1
        self.soon()  # then the answer is counted

    def _look(self) -> None:
        self._timer = None
        self.go_on()

    def _gone(self) -> ConnectionLost:
        return ConnectionLost(f"{self._peer()}: the connection has closed")
