"""Order of delivery: process queues with waiting messages take turns.

A queue that was served goes to the end of the line. In orderly mode a queue is in line only while none of its messages
is in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from functools import partial
from typing import NamedTuple

from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.world import Clock


class Delivery(NamedTuple):
    """Messages of one queue that were delivered and are in flight."""

    process_queue: ProcessQueue
    messages: list[ReceivedMessage]


_new_delivery = partial(tuple.__new__, Delivery)  # made for each message, in a quarter of the time of Delivery()


class DeliveryQueue:
    """Pull tasks call `offer`, consuming tasks call `take`."""

    def __init__(self, clock: Clock, *, orderly: bool, locking: bool) -> None:
        """With *locking*, a queue is served only while this member has its lock at the broker."""
        self._clock = clock
        self._orderly = orderly
        self._locking = locking
        self._ready: deque[ProcessQueue] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.closed = False
        self.refused: ClientError | None = None  # access or filter: nothing is ever delivered

    def offer(self, pq: ProcessQueue, *, first: bool = False) -> None:
        """Put *pq* in line if it has messages to deliver and is not in line yet; with *first* at the front."""
        if pq.queued or not pq.waiting or pq.dropped or pq.delivery_paused:
            return
        if self._orderly and (pq.in_flight_since or pq.suspended):
            return
        pq.queued = True
        if first:
            self._ready.appendleft(pq)
        else:
            self._ready.append(pq)
        self._wake()

    def take_now(self, max_count: int) -> Delivery | None:
        """Return up to *max_count* messages of the next queue in line, or None if no message waits."""
        ready = self._ready
        while ready and not self.closed:
            pq = ready.popleft()
            pq.queued = False
            now = self._clock.monotonic()
            if pq.dropped or pq.delivery_paused or not pq.waiting or (self._locking and pq.lock_expired(now)):
                continue
            messages = pq.hand_out(max_count, now)
            if pq.waiting and not self._orderly:
                pq.queued = True
                ready.append(pq)
            if ready and self._waiters:
                self._wake()
            return _new_delivery((pq, messages))
        return None

    async def take(self, max_count: int, timeout_s: float = math.inf) -> Delivery | None:
        """Wait for messages, then return them as `take_now`; None after `close`, or after *timeout_s* seconds."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            found = self.take_now(max_count)
            left_s = deadline - self._clock.monotonic()
            if found is not None or self.closed or left_s <= 0:
                return found
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            timer = self._clock.call_later(left_s, _wake_waiter, waiter) if left_s < math.inf else None
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # pass the wake-up to the next waiter
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                with contextlib.suppress(ValueError):  # not woken: still in the queue
                    self._waiters.remove(waiter)

    def close(self) -> None:
        """Deliver no more messages; waiting calls of `take` return None."""
        self.closed = True
        while self._waiters:
            self._wake()

    def refuse(self, problem: ClientError) -> None:
        """Close the queue because of *problem*, which consuming tasks then raise."""
        self.refused = self.refused or problem
        self.close()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                _wake_waiter(waiter)
                return


def _wake_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
