"""Limit on long responses of one connection, which bounds their memory if the peer does not read.

A peer may request hundreds of responses of a megabyte each and read none. Requests with long responses (pulls, pops,
queries) therefore wait before any data is read for them, while too much is unwritten (`WriteBuffer.full`) or while
the responses in preparation would fill the buffer. Waiting requests proceed in the order of their arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gantrymq.errors import ConnectionLost
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer

__all__ = ["CHECK_INTERVAL_S", "MAX_WAITING", "ResponseLimiter"]

T = TypeVar("T")

MAX_WAITING: Final = 256  # waiting requests above which no more are read
MAX_CONCURRENT: Final = 64  # short responses prepared at the same time
CHECK_INTERVAL_S: Final = 0.05  # between checks if no event reports free space


class ResponseLimiter:
    """Limiter of one connection."""

    def __init__(
        self,
        clock: Clock,
        writes: WriteBuffer,
        peer: Callable[[], str],
        pause: Callable[[], object],
        resume: Callable[[], object],
    ) -> None:
        """*writes* receives the responses; *pause* and *resume* stop and restart the reading of requests."""
        self._clock = clock
        self._writes = writes
        self._peer = peer
        self._pause = pause
        self._resume = resume
        self._running = 0
        self._waiting: dict[asyncio.Future[None], None] = {}  # a deque would take 760 bytes per connection
        self._release_scheduled = False  # whether a call of `release_waiting` is scheduled
        self._timer: Timer | None = None

    @property
    def busy(self) -> bool:
        """Whether new work has to wait."""
        return bool(self._waiting) or not self._has_room()

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a slot, then await *work*, which prepares one response. Write that before the next await.

        Raises:
            ConnectionLost: the connection closed first; *work* was not started if it is a coroutine.
        """
        try:
            await self._acquire()
            try:
                return await work
            finally:
                self._release()
        finally:
            if (close := getattr(work, "close", None)) is not None:  # of a coroutine, or of what holds one
                close()

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
        """Release waiting work while there is free space."""
        self._release_scheduled = False
        waiting = self._waiting
        if not waiting:
            return
        tight = self._writes.tight  # read before `_has_room`, whose result may change it
        while waiting and ((turn := next(iter(waiting))).done() or self._has_room()):
            del waiting[turn]
            if not turn.done():  # not cancelled
                self._running += 1
                turn.set_result(None)
        if len(waiting) <= MAX_WAITING // 2:
            self._resume()
        if waiting and not self._running and self._timer is None and (tight or self._writes.tight):
            self._timer = self._clock.call_later(CHECK_INTERVAL_S, self._check)

    def release_soon(self) -> None:
        """Call `release_waiting` in the next iteration of the loop, after the latest data was written to the socket."""
        if self._waiting and not self._release_scheduled:
            self._release_scheduled = True
            asyncio.get_running_loop().call_soon(self.release_waiting)

    def connection_lost(self) -> None:
        """Fail all waiting work."""
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
        self.release_soon()  # after the response is counted

    def _check(self) -> None:
        self._timer = None
        self.release_waiting()

    def _connection_lost(self) -> ConnectionLost:
        return ConnectionLost(f"{self._peer()}: the connection has closed")
