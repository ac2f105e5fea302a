"""Who gets which message next.

Queues with messages stand in a line; each one that was served goes to its end. In orderly mode a queue stands in it
only while none of its messages is in somebody's hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from functools import partial
from typing import NamedTuple

from gantrymq.client.group.held import HeldQueue
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.world import Clock

__all__ = ["HandOut", "Handed"]


class Handed(NamedTuple):
    """Messages of one queue in somebody's hand."""

    held: HeldQueue
    messages: list[ReceivedMessage]


_handed = partial(tuple.__new__, Handed)  # made for each message, in a fourth of the time that Handed() takes


class HandOut:
    """Those who want messages call `take`; those who have some call `offer`."""

    def __init__(self, clock: Clock, *, orderly: bool, locking: bool) -> None:
        """With *locking* a queue is served only while its broker's lock is ours."""
        self._clock = clock
        self._orderly = orderly
        self._locking = locking
        self._ready: deque[HeldQueue] = deque()
        self._wanting: deque[asyncio.Future[None]] = deque()
        self.closed = False
        self.refused: ClientError | None = None  # why nothing will ever be handed out

    def offer(self, held: HeldQueue, *, first: bool = False) -> None:
        """Let *held* stand in line, if it has something to hand out and does not stand there; *first*: before all."""
        if held.ready or not held.waiting or held.dropped or held.halted:
            return
        if self._orderly and (held.in_hand or held.resting):
            return
        held.ready = True
        if first:
            self._ready.appendleft(held)
        else:
            self._ready.append(held)
        self._wake()

    def take_now(self, most: int) -> Handed | None:
        """Up to *most* messages of the next queue in line; None where nothing waits."""
        ready = self._ready
        while ready and not self.closed:
            held = ready.popleft()
            held.ready = False
            now = self._clock.monotonic()
            if held.dropped or held.halted or not held.waiting or (self._locking and held.lock_expired(now)):
                continue
            messages = held.hand_out(most, now)
            if held.waiting and not self._orderly:
                held.ready = True
                ready.append(held)
            if ready and self._wanting:
                self._wake()
            return _handed((held, messages))
        return None

    async def take(self, most: int, timeout_s: float = math.inf) -> Handed | None:
        """As `take_now`, but waits for something; None when `close` was called, or *timeout_s* seconds are over."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            found = self.take_now(most)
            left_s = deadline - self._clock.monotonic()
            if found is not None or self.closed or left_s <= 0:
                return found
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wanting.append(told)
            timer = self._clock.call_later(left_s, _tell, told) if left_s < math.inf else None
            try:
                await told
            except asyncio.CancelledError:
                if told.done() and not told.cancelled():
                    self._wake()  # what it was told of is for the next one
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                with contextlib.suppress(ValueError):  # nobody told it
                    self._wanting.remove(told)

    def close(self) -> None:
        """Hand nothing out any more; whoever waits gets nothing."""
        self.closed = True
        while self._wanting:
            self._wake()

    def refuse(self, problem: ClientError) -> None:
        """As `close`; whoever wants messages gets *problem*."""
        self.refused = self.refused or problem
        self.close()

    def _wake(self) -> None:
        while self._wanting:
            told = self._wanting.popleft()
            if not told.done():
                _tell(told)
                return


def _tell(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
