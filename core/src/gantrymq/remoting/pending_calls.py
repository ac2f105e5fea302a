"""Requests of one connection that wait for their responses, by opaque.

Each side of a connection numbers its own requests; a response carries the number of its request.

A deadline starts when the request is handed to the socket, not while it is buffered. At the deadline a call gets more
time in two cases: its bytes are still in memory although others were written since (the peer reads slowly), or this
process was late, so that the response may be in the socket unread.

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

_MOST: Final = 0x7FFFFFFF
LATE_S: Final = 0.05  # a timer later than this shows that the event loop was busy;
_GRACE_S: Final = 0.05  # responses then get this time to be read


class _Call:
    """One pending request."""

    __slots__ = ("code", "future", "group")

    def __init__(self, code: int, future: asyncio.Future[Command], group: _Group) -> None:
        self.code = code
        self.future = future
        self.group = group


class _Group:
    """Requests that were handed over together and have one deadline.

    They share a timer, which is cancelled when all of them are finished.
    """

    __slots__ = ("calls", "due", "end", "late", "timeout_s", "timer", "written")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.calls: dict[int, _Call] = {}  # by opaque
        self.timer: Timer | None = None  # set when they are handed over
        self.due = 0.0  # monotonic seconds
        self.end = 0  # position of their last byte in the byte stream
        self.written = 0  # bytes written when the deadline started
        self.late = False  # whether time was added for a late event loop


class PendingCalls:
    """Futures of responses by opaque. Not thread-safe."""

    def __init__(self, clock: Clock, peer: Callable[[], str], written: Callable[[], int]) -> None:
        """*peer* returns the name of the peer for messages, *written* the number of bytes written so far."""
        self._clock = clock
        self._peer = peer
        self._written = written
        self._waiting: dict[int, _Call] = {}
        self._gathered: dict[float, _Group] = {}  # not yet handed over, by timeout
        self._next = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # set by the first request

    def __len__(self) -> int:
        return len(self._waiting)

    def number(self) -> int:
        """Return the next opaque that no pending request uses."""
        opaque = self._next
        while opaque in self._waiting:
            opaque = (opaque + 1) & _MOST
        self._next = (opaque + 1) & _MOST
        return opaque

    def wait(self, opaque: int, code: int, timeout_s: float) -> asyncio.Future[Command]:
        """Return a future of the response to request *code*. It fails with CallTimeout *timeout_s* s after `begin`.

        A caller that cancels it must call `forget`.
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
        """Remove the call of *future*. Does nothing if it already has its response."""
        call = self._waiting.get(opaque)
        if call is not None and call.future is future:
            del self._waiting[opaque]
            self._done(opaque, call.group)

    def begin(self, end: int) -> None:
        """Start the deadlines of all new requests: they were handed to the socket, *end* bytes in total."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, {}
        now, written = self._clock.monotonic(), self._written()
        for group in gathered.values():
            if group.calls:
                group.end, group.written = end, written
                self._arm(group, now, group.timeout_s)

    def answer(self, command: Command) -> bool:
        """Set the result of the call that *command* responds to. Return False if there is none."""
        call = self._waiting.pop(command.opaque, None)
        if call is None:
            return False
        self._done(command.opaque, call.group)
        if not call.future.done():
            call.future.set_result(command)
        return True

    def lost(self) -> None:
        """Fail all pending requests with ConnectionLost."""
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
        """Remove a finished call from its group."""
        group.calls.pop(opaque, None)
        if not group.calls and group.timer is not None:
            group.timer.cancel()

    def _expire(self, group: _Group) -> None:
        now, written = self._clock.monotonic(), self._written()
        if not group.late and now - group.due > LATE_S:
            group.late = True
            self._arm(group, now, _GRACE_S)
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
