"""Queue of the requests of one connection, served in batches, one batch per iteration of the event loop.

The responses of one batch are written before the next one is served, and other connections are served in between.
Requests wait while the peer does not read responses; while many wait, no more are read.

A peer may request hundreds of responses of a megabyte each and read none. Requests with long responses (pulls, pops,
queries) therefore wait in `ResponseLimiter` before any data is read for them, while too much is unwritten
(`WriteBuffer.full`) or while the responses in preparation would fill the buffer. Waiting requests proceed in the order
of their arrival.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from gantrymq.errors import ConnectionLost
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.channel import Channel
from gantrymq.remoting.codes import FLAG_ONEWAY, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer

T = TypeVar("T")

MAX_WAITING_RESPONSES: Final = 256  # waiting requests above which no more are read
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
        if len(self._waiting) > MAX_WAITING_RESPONSES:
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
        if len(waiting) <= MAX_WAITING_RESPONSES // 2:
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


log = logging.getLogger("gantrymq.remoting")

MAX_BATCH: Final = 32  # largest batch, without as many one-way requests
MIN_BATCH: Final = 4  # smallest batch, for slow requests
MAX_BATCH_S: Final = 0.001  # longest time that a batch should take
MAX_WAITING: Final = 8 * MAX_BATCH  # waiting requests above which no more are read


class RequestQueue:
    """Request queue of one connection."""

    def __init__(
        self,
        connection: Channel,
        serve: Callable[[list[Command]], object] | None,
        clock: Clock,
        writes: WriteBuffer,
        pause: Callable[[], object],
        resume: Callable[[], object],
        busy_poll: BusyPoll | None,
    ) -> None:
        """*writes* receives the responses; while it is full no request is served.

        *pause* and *resume* stop and restart reading. *serve* handles a batch; without it every request is refused.
        """
        self._connection = connection
        self._handle = serve
        self._clock = clock
        self._writes = writes
        self._pause = pause
        self._resume = resume
        self._busy_poll = busy_poll
        self._waiting: list[Command] = []
        self._batch_size = MAX_BATCH  # current batch size, adapted to the time that batches take
        self._scheduled = False  # whether a call of `serve_next` is scheduled
        self._held = False
        self._finished: Callable[[], object] | None = None  # set when no more requests come

    def take(self, commands: list[Command]) -> None:
        """Serve the requests of one read, at least one, now or after the waiting ones."""
        if self._waiting:
            self._waiting += commands
        elif _batch_end(commands, self._batch_size) == len(commands) and not (
            self._writes.backlog and self._writes.full
        ):
            self._serve(commands)
        else:
            self._waiting = commands
            self.serve_next()
        if len(self._waiting) > MAX_WAITING:  # resumed when they are served
            self._pause()

    def serve_next(self) -> None:
        """Serve the next batch of waiting requests, if the buffer has room for responses."""
        self._scheduled = False
        waiting = self._waiting
        if not waiting or self._held or (self._writes.closed and self._finished is None):
            return
        tight = self._writes.tight  # read before `full`, whose result may change it
        if self._writes.full:
            self._pause()
            if tight or self._writes.tight:  # then no event reports free space
                self._scheduled = True
                self._clock.call_later(CHECK_INTERVAL_S, self.serve_next)
            return
        part = _batch_end(waiting, self._batch_size)
        self._waiting = waiting[part:]
        self._serve(waiting[:part])
        if self._waiting:
            self.serve_soon()
        else:
            self._resume()
            self._end()

    def serve_soon(self) -> None:
        """Serve waiting requests in the next iteration of the loop."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.serve_next)

    def put_back(self, commands: Sequence[Command]) -> None:
        """Queue *commands* before the waiting requests."""
        self._waiting[:0] = commands
        self.serve_soon()

    def hold(self, commands: Sequence[Command]) -> None:
        """Queue *commands* before the waiting requests, and serve none until `release`."""
        self._waiting[:0] = commands
        self._held = True

    def release(self) -> None:
        """Serve waiting requests again."""
        self._held = False
        self.serve_soon()

    def finish(self, finished: Callable[[], object]) -> None:
        """Serve the waiting requests, even of a lost connection, then call *finished*; at once if none waits."""
        self._finished = finished
        self._end()
        self.serve_soon()

    def discard(self) -> None:
        """Discard the waiting requests."""
        self._waiting = []
        self._end()

    def _end(self) -> None:
        if not self._waiting and self._finished is not None:
            finished, self._finished = self._finished, None
            finished()

    def _serve(self, commands: list[Command]) -> None:
        connection, writes = self._connection, self._writes
        if self._handle is None:
            for command in commands:
                connection.reply(command, Command(3, remark=f" request type {command.code} not supported"))
            return
        began = self._clock.monotonic()
        scheduled, writes.flushing = writes.flushing, True  # immediate responses are flushed below
        try:
            self._handle(commands)
        except Exception:
            names = [request_name(command.code) for command in commands[:8]]
            log.exception("%s: the handler failed on %s", connection.address, names)
        writes.flushing = scheduled
        writes.flush()
        ended = self._clock.monotonic()
        if self._busy_poll is not None:
            self._busy_poll.served(connection, commands, began, ended, answered=writes.last_wrote >= began)
        took_s = ended - began
        if took_s > MAX_BATCH_S:
            self._batch_size = max(MIN_BATCH, self._batch_size // 2)
        elif took_s < MAX_BATCH_S / 2 and self._batch_size < MAX_BATCH and len(commands) >= self._batch_size:
            self._batch_size *= 2


def _batch_end(commands: Sequence[Command], size: int) -> int:
    """Return the number of requests in the first batch of *commands*: up to *size*, and as many one-way ones.

    If one-way requests counted like others, a client whose sends each come with one would get half as many responses
    at a time.
    """
    if len(commands) <= size:
        return len(commands)
    oneway = 0
    for index, command in enumerate(commands[: 2 * size]):
        if command.flag & FLAG_ONEWAY:
            oneway += 1
            full = oneway > size
        else:
            full = index - oneway == size
        if full:
            return index
    return min(len(commands), 2 * size)
