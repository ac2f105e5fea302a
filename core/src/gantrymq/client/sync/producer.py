"""Sending from threads: each method waits for the one of `gantrymq.client.Producer` with its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.producer import Producer as AsyncProducer
from gantrymq.client.producer_settings import ProducerSettings
from gantrymq.client.results import SendResult
from gantrymq.client.selectors import Destination
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Producer"]


class Producer(SyncBaseClient[AsyncProducer]):
    """A producer of a group, for any number of threads. Errors are those of `gantrymq.client.Producer`."""

    @property
    def group(self) -> str:
        """Its name."""
        return self._wrapped.group

    @property
    def settings(self) -> ProducerSettings:
        """What was given, and the defaults."""
        return self._wrapped.settings

    @property
    def oneways_dropped(self) -> int:
        """Messages of `send_oneway` that were taken and then could not be written."""
        return self._wrapped.oneways_dropped

    @property
    def trace(self) -> MessageTrace | None:
        """What counts the records of its message trace; None where there is none."""
        return self._wrapped.trace

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that messages of *topic* may be sent to, at least one."""
        return self._portal.call(lambda: self._wrapped.queues(topic))

    def send(self, message: Message, queue: Destination | None = None, timeout_s: float | None = None) -> SendResult:
        """Send one message and wait until it is stored.

        Args:
            message: is not changed.
            queue: to send to, and to no other, or what chooses one, in the client's own thread; None for the next in
                turn.
            timeout_s: seconds for all attempts together; None for ``default_timeout_s``.
        """
        return self._portal.call(lambda: self._wrapped.send(message, queue, timeout_s))

    def send_soon(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> Future[SendResult]:
        """As `send`, begun now and not waited for: ``result()`` does, and raises what `send` would.

        `close` waits for it. Those of one thread are written in the order of its calls. Beyond ``max_under_way`` they
        wait in a line and take memory, some 3 KB each and the body: ask for the results of a bunch before the next.
        """

        async def begun() -> SendResult:
            return await self._wrapped.send_soon(message, queue, timeout_s)

        return self._portal.submit(begun)

    def send_oneway(self, message: Message, queue: Destination | None = None, timeout_s: float | None = None) -> None:
        """Send without an answer: done once the connection has taken the message, which may yet be lost."""
        self._portal.call(lambda: self._wrapped.send_oneway(message, queue, timeout_s))

    def send_batch(
        self, messages: Sequence[Message], queue: Destination | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send messages of one topic as one request; they lie next to each other in one queue."""
        return self._portal.call(lambda: self._wrapped.send_batch(messages, queue, timeout_s))

    def send_batches(
        self, messages: Iterable[Message], queue: Destination | None = None, timeout_s: float | None = None
    ) -> tuple[SendResult, ...]:
        """Send any number of messages as batches that are as long as they may be, one after the other."""
        return self._portal.call(lambda: self._wrapped.send_batches(messages, queue, timeout_s))

    def flush(self) -> None:
        """Send what is gathered, and wait until all that was begun before is over; how it went, the futures say."""
        self._portal.call(self._wrapped.flush)

    def request(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> ReceivedMessage:
        """Send a question, and wait for the answer of whoever consumes it."""
        return self._portal.call(lambda: self._wrapped.request(message, queue, timeout_s))

    def recall(self, topic: str, handle: str) -> str:
        """Take a timed message back before it is delivered; returns its message id."""
        return self._portal.call(lambda: self._wrapped.recall(topic, handle))
