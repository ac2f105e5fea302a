"""The requests of one connection that wait for their answers, each under its opaque.

Both sides of a connection number their own requests; an answer carries the number of what it answers.

A deadline begins when the request is handed to the socket, not while it is gathered. When it is over, two things give a
call more time: its bytes are still in our memory although others left since it began (the peer reads, slowly), or this
process was late itself, so that the answer may lie in the socket unread.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (responseTable, scanResponseTable).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gantrymq.errors import CallTimeout, ConnectionLost, format_seconds
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.world import Clock, Timer

__all__ = ["PendingCalls"]

_MOST: Final = 0x7FFFFFFF
LATE_S: Final = 0.05  # a timer that runs so much later than it was due says that the event loop was busy,
GRACE_S: Final = 0.05  # and then answers get this long to be read


class _Call:
    """One request that waits."""

    __slots__ = ("code", "future", "group")

    def __init__(self, code: int, future: asyncio.Future[Command], group: _Group) -> None:
        self.code = code
        self.future = future
        self.group = group


class _Group:
    """Requests that were handed over together and have one deadline.

    They share a timer, which is cancelled when none of them waits any more.
    """

    __slots__ = ("calls", "due", "end", "late", "timeout_s", "timer", "written")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.calls: dict[int, _Call] = {}  # by opaque
        self.timer: Timer | None = None  # from when they are handed over
        self.due = 0.0  # monotonic seconds
        self.end = 0  # position of their last byte in all that was handed over
        self.written = 0  # what had left our memory when the deadline began
        self.late = False  # whether the event loop's lateness was made up for


class PendingCalls:
    """Futures by opaque. Belongs to the event loop."""

    def __init__(self, clock: Clock, peer: Callable[[], str], written: Callable[[], int]) -> None:
        """*peer* names the other side, for sentences; *written* says how many bytes have left our memory."""
        self._clock = clock
        self._peer = peer
        self._written = written
        self._waiting: dict[int, _Call] = {}
        self._gathered: dict[float, _Group] = {}  # those whose deadline has not begun, by timeout
        self._next = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # from the first request on

    def __len__(self) -> int:
        return len(self._waiting)

    def number(self) -> int:
        """The next opaque that no waiting request has."""
        opaque = self._next
        while opaque in self._waiting:
            opaque = (opaque + 1) & _MOST
        self._next = (opaque + 1) & _MOST
        return opaque

    def wait(self, opaque: int, code: int, timeout_s: float) -> asyncio.Future[Command]:
        """A future of the answer to request *code*; *timeout_s* seconds after `begin` it fails with CallTimeout.

        Whoever cancels it calls `forget`.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Command] = self._loop.create_future()
        group = self._gathered.get(timeout_s)
        if group is None:
            group = self._gathered[timeout_s] = _Group(timeout_s)
        self._waiting[opaque] = group.calls[opaque] = _Call(code, future, group)
        return future

    def forget(self, opaque: int, future: asyncio.Future[Command]) -> None:
        """Nobody waits for *future* any more; harmless where it has its answer."""
        call = self._waiting.get(opaque)
        if call is not None and call.future is future:
            del self._waiting[opaque]
            self._done(opaque, call.group)

    def begin(self, end: int) -> None:
        """All requests made since the last time were handed to the socket; *end* counts all bytes ever handed over."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, {}
        now, written = self._clock.monotonic(), self._written()
        for group in gathered.values():
            if group.calls:
                group.end, group.written = end, written
                self._arm(group, now, group.timeout_s)

    def answer(self, command: Command) -> bool:
        """Hand an answer to whoever waits for it; False when nobody does."""
        call = self._waiting.pop(command.opaque, None)
        if call is None:
            return False
        self._done(command.opaque, call.group)
        if not call.future.done():
            call.future.set_result(command)
        return True

    def lost(self) -> None:
        """Fail every request that waits: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        self._gathered = {}
        for opaque, call in waiting.items():
            self._done(opaque, call.group)
            if not call.future.done():
                call.future.set_exception(ConnectionLost(f"{self._peer()}: the connection closed before the answer"))

    def _arm(self, group: _Group, now: float, delay_s: float) -> None:
        group.due = now + delay_s
        group.timer = self._clock.call_later(delay_s, self._expire, group)

    def _done(self, opaque: int, group: _Group) -> None:
        """One of a group has its answer, or needs none."""
        group.calls.pop(opaque, None)
        if not group.calls and group.timer is not None:
            group.timer.cancel()

    def _expire(self, group: _Group) -> None:
        now, written = self._clock.monotonic(), self._written()
        if not group.late and now - group.due > LATE_S:
            group.late = True
            self._arm(group, now, GRACE_S)
        elif group.end > written > group.written:
            group.written = written
            self._arm(group, now, group.timeout_s)
        else:
            self._give_up(group)

    def _give_up(self, group: _Group) -> None:
        limit = format_seconds(group.timeout_s)
        for opaque, call in group.calls.items():
            if not call.future.done():
                self._waiting.pop(opaque, None)
                call.future.set_exception(
                    CallTimeout(f"{self._peer()}: no answer to {request_name(call.code)} within {limit}")
                )
