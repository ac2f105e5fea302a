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

__all__ = ["CHECK_INTERVAL_S", "MAX_WAITING", "ResponseLimiter"]

T = TypeVar("T")

MAX_WAITING: Final = 256  # requests that wait for a turn while more are read
MAX_CONCURRENT: Final = 64  # answers that are made at the same time, if they are short
CHECK_INTERVAL_S: Final = 0.05  # between looks where no event tells that there is room


class ResponseLimiter:
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
        self._running = 0
        self._waiting: dict[asyncio.Future[None], None] = {}  # a deque would take 760 bytes of each connection
        self._release_scheduled = False  # whether `release_waiting` will be called in a turn to come
        self._timer: Timer | None = None

    @property
    def busy(self) -> bool:
        """Whether work has to wait for its turn."""
        return bool(self._waiting) or not self._has_room()

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a turn, then for *work*, which makes one answer; write that before the next await.

        Raises:
            ConnectionLost: the connection closed before the turn came; *work* was not begun if it is a coroutine.
        """
        try:
            await self._acquire()
            try:
                return await work
            finally:
                self._release()
        finally:
            if isinstance(work, Coroutine):
                work.close()

    async def _acquire(self) -> None:
        if self._writes.closed:
            raise self._connection_lost()
        if not self.busy:
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        if len(self._waiting) > MAX_WAITING:
            self._pause()
        self.release_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._release()
            raise

    def release_waiting(self) -> None:
        """Give turns while there is room."""
        self._release_scheduled = False
        waiting = self._waiting
        if not waiting:
            return
        tight = self._writes.tight  # asked before `_has_room`, as an answer may be another a moment later
        while waiting and ((turn := next(iter(waiting))).done() or self._has_room()):
            del waiting[turn]
            if not turn.done():  # it is not cancelled
                self._running += 1
                turn.set_result(None)
        if len(waiting) <= MAX_WAITING // 2:
            self._resume()
        if waiting and not self._running and self._timer is None and (tight or self._writes.tight):
            self._timer = self._clock.call_later(CHECK_INTERVAL_S, self._check)

    def release_soon(self) -> None:
        """Go on in the next turn of the loop: then what was just handed over has been tried to be written."""
        if self._waiting and not self._release_scheduled:
            self._release_scheduled = True
            asyncio.get_running_loop().call_soon(self.release_waiting)

    def connection_lost(self) -> None:
        """The connection is gone: nobody who waits gets a turn."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for turn in waiting:
            if not turn.done():
                turn.set_exception(self._connection_lost())

    def _has_room(self) -> bool:
        writes, running = self._writes, self._running
        if not running:
            return not writes.full
        return running < MAX_CONCURRENT and writes.has_room_for((running + 1) * writes.long_bytes)

    def _release(self) -> None:
        self._running -= 1
        self.release_soon()  # then the answer is counted

    def _check(self) -> None:
        self._timer = None
        self.release_waiting()

    def _connection_lost(self) -> ConnectionLost:
        return ConnectionLost(f"{self._peer()}: the connection has closed")
