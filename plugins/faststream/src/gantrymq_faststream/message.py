"""Messages as seen by handlers and middlewares.

ack()                the message is consumed
nack(delay_level=0)  redeliver it to any member of the group: after the broker's retry delays (10 s, 30 s, 1 min, ...),
                     or after the delay of a level; in orderly mode to this member, after ``suspend_s``
reject()             do not redeliver it: it becomes a dead letter, in topic %DLQ% and the group's name
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from faststream.message import StreamMessage

from gantrymq.client import ConsumerSettings, ReceivedMessage

_DEAD = -1  # the delay level for dead letters


class MessageConsumer(Protocol):
    """The part of `gantrymq.client.Consumer` that messages use."""

    @property
    def settings(self) -> ConsumerSettings:
        """Settings of the consumer."""

    def ack(self, message: ReceivedMessage) -> bool:
        """Mark *message* as consumed."""

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Request redelivery of *message*."""


class _NoConsumer:
    """Used if there is no broker: for answers to requests, and in memory tests."""

    settings = ConsumerSettings()

    def ack(self, message: ReceivedMessage) -> bool:
        return True

    async def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        return True


NO_CONSUMER: MessageConsumer = _NoConsumer()


class _AcknowledgedMessage(StreamMessage[Any]):
    """Base class of single messages and batches.

    Attributes:
        consumer: the client's consumer that received them.
    """

    def __init__(self, *args: Any, consumer: MessageConsumer = NO_CONSUMER, **more: Any) -> None:
        super().__init__(*args, **more)
        self.consumer = consumer

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        raise NotImplementedError

    async def ack(self) -> None:
        """Mark the message as consumed; does nothing if it is already acknowledged or rejected."""
        if self.committed is None:
            for each in self._received:
                self.consumer.ack(each)
        await super().ack()

    async def nack(self, delay_level: int = 0) -> None:
        """Request redelivery; does nothing if it is already acknowledged or rejected."""
        if self.committed is None:
            for each in self._received:
                await self.consumer.nack(each, delay_level)
        await super().nack()

    async def reject(self) -> None:
        """Send it to the dead letters; does nothing if it is already acknowledged or rejected."""
        if self.committed is None:
            for each in self._received:
                if self.consumer.settings.orderly:  # only the last try becomes a dead letter
                    each.reconsume_times = self.consumer.settings.tries
                await self.consumer.nack(each, _DEAD)
        await super().reject()


class GantryMessage(_AcknowledgedMessage):
    """One message; ``raw_message`` is the client's `ReceivedMessage`."""

    raw_message: ReceivedMessage

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        return (self.raw_message,)


class GantryBatchMessage(_AcknowledgedMessage):
    """Messages of one queue; ``raw_message`` is a list, ``batch_headers`` has the headers of each."""

    raw_message: list[ReceivedMessage]

    @property
    def _received(self) -> Sequence[ReceivedMessage]:
        return self.raw_message
