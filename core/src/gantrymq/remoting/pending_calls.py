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

    __slots__ = ("code", "due", "end", "future", "group", "late", "opaque", "timeout_s", "written")

    def __init__(self, opaque: int, future: asyncio.Future[Command], code: int, timeout_s: float) -> None:
        self.opaque = opaque
        self.future = future
        self.code = code
        self.timeout_s = timeout_s
        self.group: _Group | None = None  # from when it is handed over
        self.due = 0.0  # monotonic seconds
        self.end = 0  # position of its last byte in all that was handed over
        self.written = 0  # what had left our memory when the deadline began
        self.late = False  # whether the event loop's lateness was made up for


class _Group:
    """Requests of one deadline, which share a timer; it is cancelled when none of them waits any more."""

    __slots__ = ("calls", "timer")

    def __init__(self, calls: dict[int, _Call]) -> None:
        self.calls = calls  # by opaque
        self.timer: Timer | None = None


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
        self._waiting[opaque] = _Call(opaque, future, code, timeout_s)
        self._gathered.append(opaque)
        return future

    def forget(self, opaque: int, future: asyncio.Future[Command]) -> None:
        """Nobody waits for *future* any more; harmless where it has its answer."""
        call = self._waiting.get(opaque)
        if call is not None and call.future is future:
            del self._waiting[opaque]
            self._done(call)

    def begin(self, end: int) -> None:
        """All requests made since the last time were handed to the socket; *end* counts all bytes ever handed over."""
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = []
        written = self._written()
        together: dict[float, dict[int, _Call]] = {}  # by timeout
        for opaque in gathered:
            call = self._waiting.get(opaque)
            if call is not None and call.group is None:
                call.end, call.written = end, written
                together.setdefault(call.timeout_s, {})[opaque] = call
        now = self._clock.monotonic()
        for timeout_s, calls in together.items():
            self._arm(calls, now, timeout_s)

    def answer(self, command: Command) -> bool:
        """Hand an answer to whoever waits for it; False when nobody does."""
        call = self._waiting.pop(command.opaque, None)
        if call is None:
            return False
        self._done(call)
        if not call.future.done():
            call.future.set_result(command)
        return True

    def lost(self) -> None:
        """Fail every request that waits: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        self._gathered = []
        for call in waiting.values():
            self._done(call)
            if not call.future.done():
                call.future.set_exception(ConnectionLost(f"{self._peer()}: the connection closed before the answer"))

    def _arm(self, calls: dict[int, _Call], now: float, delay_s: float) -> None:
        group = _Group(calls)
        for call in calls.values():
            call.due = now + delay_s
            call.group = group
        group.timer = self._clock.call_later(delay_s, self._expire, group)

    def _done(self, call: _Call) -> None:
        """One of a group has its answer, or needs none."""
        group = call.group
        if group is not None:
            group.calls.pop(call.opaque, None)
            if not group.calls and group.timer is not None:
                group.timer.cancel()

    def _expire(self, group: _Group) -> None:
        now, written = self._clock.monotonic(), self._written()
        for opaque, call in group.calls.items():
            if call.future.done():
                continue
            if not call.late and now - call.due > LATE_S:
                call.late = True
                self._arm({opaque: call}, now, GRACE_S)
            elif call.end > written > call.written:
                call.written = written
                self._arm({opaque: call}, now, call.timeout_s)
            else:
                self._waiting.pop(opaque, None)
                call.future.set_exception(
                    CallTimeout(f"{self._peer()}: no answer to {request_name(call.code)} within {call.timeout_s:g} s")
                )
