"""Queue of the requests of one connection, served in batches, one batch per iteration of the event loop.

The responses of one batch are written before the next one is served, and other connections are served in between.
Requests wait while the peer does not read responses; while many wait, no more are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.channel import Channel
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.response_limiter import CHECK_INTERVAL_S
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock

__all__ = ["MAX_BATCH", "MAX_WAITING", "RequestQueue"]

log = logging.getLogger("gantrymq.remoting")

MAX_BATCH: Final = 32  # largest batch
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

    def take(self, commands: list[Command]) -> None:
        """Serve the requests of one read, at least one, now or after the waiting ones."""
        if self._waiting:
            self._waiting += commands
        elif len(commands) <= self._batch_size and not (self._writes.backlog and self._writes.full):
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
        if not waiting or self._held or self._writes.closed:
            return
        tight = self._writes.tight  # read before `full`, whose result may change it
        if self._writes.full:
            self._pause()
            if tight or self._writes.tight:  # then no event reports free space
                self._scheduled = True
                self._clock.call_later(CHECK_INTERVAL_S, self.serve_next)
            return
        part = self._batch_size
        self._waiting = waiting[part:]
        self._serve(waiting[:part])
        if self._waiting:
            self.serve_soon()
        else:
            self._resume()

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

    def clear(self) -> None:
        """Discard the waiting requests."""
        self._waiting = []

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
