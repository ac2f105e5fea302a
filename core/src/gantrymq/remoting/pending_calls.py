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

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.world import Clock, Timer

__all__ = ["PendingCalls"]

_MOST: Final = 0x7FFFFFFF
LATE_S: Final = 0.05  # a timer that runs so much later than it was due says that the event loop was busy,
GRACE_S: Final = 0.05  # and then answers get this long to be read


class _Call:
    """One request that waits."""

    __slots__ = ("code", "due", "end", "future", "late", "timeout_s", "timer", "written")

    def __init__(self, future: asyncio.Future[Command], code: int, timeout_s: float) -> None:
        self.future = future
        self.code = code
        self.timeout_s = timeout_s
        self.timer: Timer | None = None  # from when it is handed over
        self.due = 0.0  # monotonic seconds
        self.end = 0  # position of its last byte in all that was handed over
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
        self._gathered: list[int] = []  # opaques of those whose deadline has not begun
        self._next = 0

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

        Cancelling it forgets the request.
        """
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = call = _Call(future, code, timeout_s)
        self._gathered.append(opaque)
        future.add_done_callback(lambda _: self._forget(opaque, call))
        return future

    def begin(self, end: int) -> None:
        """All requests made since the last time were handed to the socket; *end* counts all bytes ever handed over."""
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = []
        now, written = self._clock.monotonic(), self._written()
        for opaque in gathered:
            call = self._waiting.get(opaque)
            if call is not None and call.timer is None:
                call.end, call.written = end, written
                self._arm(opaque, call, now + call.timeout_s, call.timeout_s)

    def answer(self, command: Command) -> bool:
        """Hand an answer to whoever waits for it; False when nobody does."""
        call = self._waiting.pop(command.opaque, None)
        if call is not None and not call.future.done():
            call.future.set_result(command)
        return call is not None

    def lost(self) -> None:
        """Fail every request that waits: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        self._gathered = []
        for call in waiting.values():
            if not call.future.done():
                call.future.set_exception(ConnectionLost(f"{self._peer()}: the connection closed before the answer"))

    def _arm(self, opaque: int, call: _Call, due: float, delay_s: float) -> None:
        call.due = due
        call.timer = self._clock.call_later(delay_s, self._expire, opaque, call)

    def _expire(self, opaque: int, call: _Call) -> None:
        if call.future.done():
            return
        now, written = self._clock.monotonic(), self._written()
        if not call.late and now - call.due > LATE_S:
            call.late = True
            self._arm(opaque, call, now + GRACE_S, GRACE_S)
        elif call.end > written > call.written:
            call.written = written
            self._arm(opaque, call, now + call.timeout_s, call.timeout_s)
        else:
            self._waiting.pop(opaque, None)
            call.future.set_exception(
                CallTimeout(f"{self._peer()}: no answer to {request_name(call.code)} within {call.timeout_s:g} s")
            )

    def _forget(self, opaque: int, call: _Call) -> None:
        if call.timer is not None:
            call.timer.cancel()
        if self._waiting.get(opaque) is call:
            del self._waiting[opaque]
