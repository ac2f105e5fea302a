"""Messages as handlers and middlewares see them.

ack()                it is consumed
nack(delay_level=0)  deliver it again, to any member of the group: after 10 s, 30 s, 1 min, ... as the broker has it,
                     or after the delay of a level; in orderly mode here, after ``suspend_s``
reject()             never again: it goes among the dead letters, topic %DLQ% and the group's name
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from faststream.message import StreamMessage

from gantrymq.client import ConsumerSettings, ReceivedMessage

__all__ = ["NOBODY", "Acknowledging", "GantryBatchMessage", "GantryMessage"]

DEAD = -1  # the delay level that makes a dead letter


class Acknowledging(Protocol):
    """What messages need of `gantrymq.client.Consumer`."""

    @property
    def settings(self) -> ConsumerSettings:
        """How it consumes."""

    def ack(self, message: ReceivedMessage) -> bool:
        """It is consumed."""

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """It was not."""


class _Nobody:
    """Where there is no broker: answers to requests, and tests in memory."""

    settings = ConsumerSettings()

    def ack(self, message: ReceivedMessage) -> bool:
        return True

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        return True


NOBODY: Acknowledging = _Nobody()


class _Acknowledged(StreamMessage[Any]):
    """What single messages and batches have in common.

    Attributes:
        consumer: the client's, that they came through.
    """

    def __init__(self, *args: Any, consumer: Acknowledging = NOBODY, **more: Any) -> None:
        super().__init__(*args, **more)
        self.consumer = consumer

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        raise NotImplementedError

    async def ack(self) -> None:
        """It is consumed; nothing where that was decided before."""
        if self.committed is None:
            for each in self._received:
                self.consumer.ack(each)
        await super().ack()

    async def nack(self, delay_level: int = 0) -> None:
        """Deliver it again; nothing where that was decided before."""
        if self.committed is None:
            for each in self._received:
                await self.consumer.nack(each, delay_level)
        await super().nack()

    async def reject(self) -> None:
        """Never deliver it again; nothing where that was decided before."""
        if self.committed is None:
            for each in self._received:
                if self.consumer.settings.orderly:  # where only the last try makes a dead letter
                    each.reconsume_times = self.consumer.settings.tries
                await self.consumer.nack(each, DEAD)
        await super().reject()


class GantryMessage(_Acknowledged):
    """One message; ``raw_message`` is the client's `ReceivedMessage`."""

    raw_message: ReceivedMessage

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        return (self.raw_message,)


class GantryBatchMessage(_Acknowledged):
    """Messages of one queue; ``raw_message`` is a list, ``batch_headers`` has the headers of each."""

    raw_message: list[ReceivedMessage]

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        return self.raw_message
