"""Messages of a group as an ``async for`` gets them."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from gantrymq.client.group.delivery_queue import Delivery
from gantrymq.client.group.in_flight import InFlight
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.unacked_messages import UnackedMessages
from gantrymq.client.message import ReceivedMessage

__all__ = ["BatchIterator", "Chunks", "MessageIterator"]

T = TypeVar("T")


class _DeliveryIterator(Generic[T]):
    """Asking for the next message acknowledges the one before; a loop that is left gives its message back.

    Nobody tells an iterator that its loop was left: it notices when it is forgotten, at once in CPython.
    """

    _batch = False

    def __init__(
        self, member: GroupMember, in_flight: InFlight, max_count: int, unacked: UnackedMessages | None
    ) -> None:
        """Up to *most* messages at a time; with *kept* the application acknowledges them."""
        self._deliveries = member.deliveries
        self._holder = in_flight.new_holder(batch=self._batch)
        self._max_count = max_count
        self._unacked = unacked

    def for_threads(self) -> None:
        """Its messages are consumed by a thread, each call of which is a task of its own."""
        self._holder.in_task = False

    def bind_to_task(self, task: asyncio.Task[Any]) -> None:
        """What is in hand now is in that of *task*, instead of the one that asked for it; `close` waits for it."""
        if self._holder.delivery is not None:
            self._holder.task = task

    def _next_now(self) -> list[ReceivedMessage] | None:
        """The next messages, None where nothing waits; what was in hand is consumed."""
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
    """One by one."""

    def __aiter__(self) -> MessageIterator:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return (self._next_now() or await self._next())[0]


class BatchIterator(_DeliveryIterator[list[ReceivedMessage]]):
    """Several of one queue at a time."""

    _batch = True

    def __aiter__(self) -> BatchIterator:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        return self._next_now() or await self._next()


class Chunks(_DeliveryIterator[list[ReceivedMessage]]):
    """For a loop of another thread: several of one queue at a time, acknowledged as if they came one by one.

    How many of all it got are consumed is counted from the beginning, so that it may be said twice.
    """

    def __init__(self, member: GroupMember, in_flight: InFlight) -> None:
        """Acknowledges by itself. Where hooks look on, messages come one by one indeed."""
        super().__init__(member, in_flight, 1, None)
        self.for_threads()
        self._hooked = in_flight.hooked
        self._settled = 0

    async def next_chunk(self, consumed: int, max_count: int) -> list[ReceivedMessage]:
        """Up to *most* messages; *consumed* of those before are consumed, the rest waits again.

        Raises:
            StopAsyncIteration: the consumer is closed.
        """
        self.settle(consumed)
        self._holder.give_back()
        self._max_count = 1 if self._hooked else max_count
        return self._next_now() or await self._next()

    def keep_first(self, consumed: int) -> None:
        """As `settle`; the first of the others stays in hand, and the rest waits again."""
        self.settle(consumed)
        self._holder.keep_first(1)

    def settle(self, consumed: int) -> None:
        """*consumed* messages since the beginning are consumed."""
        if consumed > self._settled:
            self._holder.done(consumed - self._settled)
            self._settled = consumed
