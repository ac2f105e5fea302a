"""Async iterators over the messages of a group."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from gantrymq.client.group.delivery_queue import Delivery
from gantrymq.client.group.in_flight import InFlight
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.unacked_messages import UnackedMessages
from gantrymq.client.message import ReceivedMessage

T = TypeVar("T")


class _DeliveryIterator(Generic[T]):
    """Requesting the next message acknowledges the one before; a loop that is left gives its message back.

    An iterator is not notified when its loop is left: it gives messages back when it is garbage collected, which in
    CPython happens at once.
    """

    _batch = False

    def __init__(
        self, member: GroupMember, in_flight: InFlight, max_count: int, unacked: UnackedMessages | None
    ) -> None:
        """Return up to *max_count* messages at a time; with *unacked* the application acknowledges them."""
        self._deliveries = member.deliveries
        self._holder = in_flight.new_holder(batch=self._batch)
        self._max_count = max_count
        self._unacked = unacked

    def for_threads(self) -> None:
        """Mark messages as consumed by another thread, each call of which is a separate task."""
        self._holder.in_task = False

    def bind_to_task(self, task: asyncio.Task[Any]) -> None:
        """Make *task* the owner of the in-flight messages instead of the requesting task; `close` waits for it."""
        if self._holder.delivery is not None:
            self._holder.task = task

    def _next_now(self) -> list[ReceivedMessage] | None:
        """Finish the in-flight messages as consumed and return the next ones, or None if no message waits."""
        holder = self._holder
        if holder.delivery is not None:
            holder.done()
        delivery = self._deliveries.take_now(self._max_count)
        return None if delivery is None else self._accept(delivery)

    async def _next(self) -> list[ReceivedMessage]:
        delivery = await self._deliveries.take(self._max_count)
        if delivery is None:
            raise self._deliveries.refused or StopAsyncIteration
        return self._accept(delivery)

    def _accept(self, delivery: Delivery) -> list[ReceivedMessage]:
        if self._unacked is None:
            self._holder.accept(delivery)
        else:
            self._unacked.add(delivery)
        return delivery.messages

    def __del__(self) -> None:
        self._holder.close()


class MessageIterator(_DeliveryIterator[ReceivedMessage]):
    """Single messages."""

    def __aiter__(self) -> MessageIterator:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return (self._next_now() or await self._next())[0]


class BatchIterator(_DeliveryIterator[list[ReceivedMessage]]):
    """Lists of messages of one queue."""

    _batch = True

    def __aiter__(self) -> BatchIterator:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        return self._next_now() or await self._next()


class Chunks(_DeliveryIterator[list[ReceivedMessage]]):
    """Lists of messages of one queue for a loop in another thread, acknowledged as if delivered one by one.

    Consumed messages are counted from the start, so that a count may be reported twice.
    """

    def __init__(self, member: GroupMember, in_flight: InFlight) -> None:
        """Create the iterator. With hooks, messages are delivered one by one."""
        super().__init__(member, in_flight, 1, None)
        self.for_threads()
        self._hooked = in_flight.hooked
        self._settled = 0

    async def next_chunk(self, consumed: int, max_count: int) -> list[ReceivedMessage]:
        """Return up to *max_count* messages.

        *consumed* is the number of messages consumed since the start; the others are given back.

        Raises:
            StopAsyncIteration: the consumer is closed.
        """
        self.settle(consumed)
        self._holder.give_back()
        self._max_count = 1 if self._hooked else max_count
        return self._next_now() or await self._next()

    def keep_first(self, consumed: int) -> None:
        """Finish messages as `settle`, keep the first of the others in flight, and give the rest back."""
        self.settle(consumed)
        self._holder.keep_first(1)

    def settle(self, consumed: int) -> None:
        """Finish messages as consumed, *consumed* of them since the start."""
        if consumed > self._settled:
            self._holder.done(consumed - self._settled)
            self._settled = consumed
