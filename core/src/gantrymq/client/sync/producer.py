"""Producers for threads: each method waits for its namesake of `gantrymq.client.Producer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.producing.producer import Producer as AsyncProducer
from gantrymq.client.sending.producer_settings import ProducerSettings
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.selectors import Destination
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Producer"]


class Producer(SyncBaseClient[AsyncProducer]):
    """A producer of a group, for any number of threads. Errors as in `gantrymq.client.Producer`."""

    @property
    def group(self) -> str:
        """Name of the group."""
        return self._wrapped.group

    @property
    def settings(self) -> ProducerSettings:
        """Settings of the producer, with defaults."""
        return self._wrapped.settings

    @property
    def oneways_dropped(self) -> int:
        """Messages of `send_oneway` that were accepted but could not be written."""
        return self._wrapped.oneways_dropped

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._wrapped.trace

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of *topic*, at least one."""
        return self._portal.call(lambda: self._wrapped.queues(topic))

    def send(self, message: Message, queue: Destination | None = None, timeout_s: float | None = None) -> SendResult:
        """Send one message and wait until it is stored.

        Args:
            message: not modified.
            queue: the only queue to use, or a function that selects one, called in the client's own thread; None for
                the next in turn.
            timeout_s: seconds for all attempts together; None for ``default_timeout_s``.
        """
        return self._portal.call(lambda: self._wrapped.send(message, queue, timeout_s))

    def send_soon(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> Future[SendResult]:
        """Start to send as `send` and return a future; its ``result()`` waits, and raises the errors of `send`.

        `close` waits for it. Messages of one thread are written in the order of its calls. Beyond ``max_under_way``,
        sends wait in a queue that takes some 3 KB plus the body for each: wait for the results of some sends before
        starting more.
        """

        async def begun() -> SendResult:
            return await self._wrapped.send_soon(message, queue, timeout_s)

        return self._portal.submit(begun)

    def send_oneway(self, message: Message, queue: Destination | None = None, timeout_s: float | None = None) -> None:
        """Send without a response: returns when the connection has accepted the message, which may still be lost."""
        self._portal.call(lambda: self._wrapped.send_oneway(message, queue, timeout_s))

    def send_batch(
        self, messages: Sequence[Message], queue: Destination | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send messages of one topic in one request; they are stored next to each other in one queue."""
        return self._portal.call(lambda: self._wrapped.send_batch(messages, queue, timeout_s))

    def send_batches(
        self, messages: Iterable[Message], queue: Destination | None = None, timeout_s: float | None = None
    ) -> tuple[SendResult, ...]:
        """Send any number of messages in batches of the maximum size, one after the other."""
        return self._portal.call(lambda: self._wrapped.send_batches(messages, queue, timeout_s))

    def flush(self) -> None:
        """Send gathered messages, and wait for all sends started before; their futures have the results."""
        self._portal.call(self._wrapped.flush)

    def request(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> ReceivedMessage:
        """Send a request message, and wait for the reply of its consumer."""
        return self._portal.call(lambda: self._wrapped.request(message, queue, timeout_s))

    def recall(self, topic: str, handle: str) -> str:
        """Cancel a timed message before it is delivered; returns its message id."""
        return self._portal.call(lambda: self._wrapped.recall(topic, handle))
