"""Requests that came in on one connection, served some a turn of the event loop.

So the first answers leave while the others are worked on, and other connections get their turn. Requests behind answers
that the peer does not read wait until it does; while many wait, nothing more is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.response_limiter import CHECK_INTERVAL_S
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock

if TYPE_CHECKING:
    from gantrymq.remoting.connection import Connection

__all__ = ["MAX_BATCH", "MAX_WAITING", "RequestHandler", "RequestQueue"]

log = logging.getLogger("gantrymq.remoting")

MAX_BATCH: Final = 32  # requests served, at most, before their answers are written and others get their turn
MIN_BATCH: Final = 4  # the same where requests take long
MAX_BATCH_S: Final = 0.001  # that the requests of one turn should not take together
MAX_WAITING: Final = 8 * MAX_BATCH  # requests that wait for their turn while more are read


class RequestHandler(Protocol):
    """Takes the requests that come in on connections."""

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Handle all requests of one read, in order; answer now or later with ``connection.reply``.

        Oneway requests are among them and are not answered. Must not block; what it raises is logged as a bug. Before
        each but the first it looks whether the connection is ``full``, and then puts that one and the rest back
        (``connection.put_back``).
        """


class RequestQueue:
    """Belongs to one connection."""

    def __init__(
        self,
        connection: Connection,
        handler: RequestHandler | None,
        clock: Clock,
        writes: WriteBuffer,
        pause: Callable[[], object],
        resume: Callable[[], object],
        busy_poll: BusyPoll | None,
    ) -> None:
        """*writes* takes the answers; while it is full nothing is served.

        *pause* and *resume* say whether more is to be read. Without a *handler* every request is refused.
        """
        self._connection = connection
        self._handler = handler
        self._clock = clock
        self._writes = writes
        self._pause = pause
        self._resume = resume
        self._busy_poll = busy_poll
        self._waiting: list[Command] = []
        self._batch_size = MAX_BATCH  # requests of one turn, by how long those before took
        self._scheduled = False  # whether those that wait are to be served in a turn to come

    def take(self, commands: list[Command]) -> None:
        """Serve requests of one read, at least one: now, or after those that wait."""
        if self._waiting:
            self._waiting += commands
        elif len(commands) <= self._batch_size and not (self._writes.backlog and self._writes.full):
            self._serve(commands)
        else:
            self._waiting = commands
            self.serve_next()
        if len(self._waiting) > MAX_WAITING:  # until they are served
            self._pause()

    def serve_next(self) -> None:
        """Serve the next of the requests that wait, if the answers before them are written by now."""
        self._scheduled = False
        waiting = self._waiting
        if not waiting or self._writes.closed:
            return
        tight = self._writes.tight  # asked before `full`, as an answer may be another a moment later
        if self._writes.full:
            self._pause()
            if tight or self._writes.tight:  # then nothing tells that there is room
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
        """Go on in the next turn of the loop, if any wait."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.serve_next)

    def put_back(self, commands: Sequence[Command]) -> None:
        """Serve *commands* before those that wait, once there is room for answers."""
        self._waiting[:0] = commands
        self.serve_soon()

    def clear(self) -> None:
        """Forget those that wait."""
        self._waiting = []

    def _serve(self, commands: list[Command]) -> None:
        connection, writes = self._connection, self._writes
        if self._handler is None:
            for command in commands:
                connection.reply(command, Command(3, remark=f" request type {command.code} not supported"))
            return
        began = self._clock.monotonic()
        scheduled, writes.flushing = writes.flushing, True  # what is answered at once leaves at once, below
        try:
            self._handler.requests(connection, commands)
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
