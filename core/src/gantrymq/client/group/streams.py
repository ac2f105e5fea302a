"""Messages of a group as an ``async for`` gets them."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from gantrymq.client.group.handing import Handed
from gantrymq.client.group.kept import Kept
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.working import Working
from gantrymq.client.message import ReceivedMessage

__all__ = ["Batches", "Messages", "Portions"]

T = TypeVar("T")


class _Stream(Generic[T]):
    """Asking for the next message acknowledges the one before; a loop that is left gives its message back.

    Nobody tells an iterator that its loop was left: it notices when it is forgotten, at once in CPython.
    """

    _several = False

    def __init__(self, member: Membership, working: Working, most: int, kept: Kept | None) -> None:
        """Up to *most* messages at a time; with *kept* the application acknowledges them."""
        self._handing = member.handing
        self._holder = working.holder(batch=self._several)
        self._most = most
        self._kept = kept

    def of_a_thread(self) -> None:
        """Its messages are consumed by a thread, each call of which is a task of its own."""
        self._holder.in_task = False

    def hold_for(self, task: asyncio.Task[Any]) -> None:
        """What is in hand now is in that of *task*, instead of the one that asked for it; `close` waits for it."""
        if self._holder.handed is not None:
            self._holder.task = task

    def _at_once(self) -> list[ReceivedMessage] | None:
        """The next messages, None where nothing waits; what was in hand is consumed."""
        holder = self._holder
        if holder.handed is not None:
            holder.done()
        handed = self._handing.take_now(self._most)
        return None if handed is None else self._taken(handed)

    async def _later(self) -> list[ReceivedMessage]:
        handed = await self._handing.take(self._most)
        if handed is None:
            raise self._handing.refused or StopAsyncIteration
        return self._taken(handed)

    def _taken(self, handed: Handed) -> list[ReceivedMessage]:
        if self._kept is None:
            self._holder.took(handed)
        else:
            self._kept.keep(handed)
        return handed.messages

    def __del__(self) -> None:
        self._holder.end()


class Messages(_Stream[ReceivedMessage]):
    """One by one."""

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return (self._at_once() or await self._later())[0]


class Batches(_Stream[list[ReceivedMessage]]):
    """Several of one queue at a time."""

    _several = True

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        return self._at_once() or await self._later()


class Portions(_Stream[list[ReceivedMessage]]):
    """For a loop of another thread: several of one queue at a time, acknowledged as if they came one by one.

    How many of all it got are consumed is counted from the beginning, so that it may be said twice.
    """

    def __init__(self, member: Membership, working: Working) -> None:
        """Acknowledges by itself. Where hooks look on, messages come one by one indeed."""
        super().__init__(member, working, 1, None)
        self.of_a_thread()
        self._hooked = working.hooked
        self._settled = 0

    async def more(self, consumed: int, most: int) -> list[ReceivedMessage]:
        """Up to *most* messages; *consumed* of those before are consumed, the rest waits again.

        Raises:
            StopAsyncIteration: the consumer is closed.
        """
        self.settle(consumed)
        self._holder.give_back()
        self._most = 1 if self._hooked else most
        return self._at_once() or await self._later()

    def keep_one(self, consumed: int) -> None:
        """As `settle`; the first of the others stays in hand, and the rest waits again."""
        self.settle(consumed)
        self._holder.keep(1)

    def settle(self, consumed: int) -> None:
        """*consumed* messages since the beginning are consumed."""
        if consumed > self._settled:
            self._holder.done(consumed - self._settled)
            self._settled = consumed
