"""The requests of one connection that wait for their answers, each under its opaque.

Both sides of a connection number their own requests; an answer carries the number of what it answers.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (responseTable, scanResponseTable).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.world import Clock, Timer

__all__ = ["Calls"]

_MOST = 0x7FFFFFFF


class Calls:
    """Futures by opaque. Belongs to the event loop."""

    def __init__(self, clock: Clock, peer: Callable[[], str]) -> None:
        """*peer* names the other side, for sentences."""
        self._clock = clock
        self._peer = peer
        self._waiting: dict[int, asyncio.Future[Command]] = {}
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
        """A future of the answer to request *code*; after *timeout_s* seconds it fails with CallTimeout.

        Cancelling it forgets the request.
        """
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        timer = self._clock.call_later(timeout_s, self._expire, opaque, code, timeout_s)
        future.add_done_callback(lambda _: self._forget(opaque, timer))
        return future

    def answer(self, command: Command) -> bool:
        """Hand an answer to whoever waits for it; False when nobody does."""
        future = self._waiting.pop(command.opaque, None)
        if future is not None and not future.done():
            future.set_result(command)
        return future is not None

    def lost(self) -> None:
        """Fail every request that waits: the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"{self._peer()}: the connection closed before the answer"))

    def _expire(self, opaque: int, code: int, timeout_s: float) -> None:
        future = self._waiting.pop(opaque, None)
        if future is not None and not future.done():
            future.set_exception(
                CallTimeout(f"{self._peer()}: no answer to {request_name(code)} within {timeout_s:g} s")
            )

    def _forget(self, opaque: int, timer: Timer) -> None:
        timer.cancel()
        self._waiting.pop(opaque, None)
