"""Send modes of a producer: single, batched, oneway, explicit batch.

    validated message -> its queue, or a balancing -> collected (`auto_batching`), or encoded alone -> `sender`

A message that is sent alone only waits for the messages of its topic that were collected before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from gantrymq.client.argument_types import check_seconds
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import Message
from gantrymq.client.producing.auto_batching import BatchAccumulator, BatchKey
from gantrymq.client.sending.encoded_message import (
    Compressor,
    EncodedMessage,
    PlainBatch,
    prepare,
    prepare_batch,
    prepare_plain,
)
from gantrymq.client.sending.message_sender import MessageSender, Submission
from gantrymq.client.sending.producer_settings import ProducerSettings
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.retries import RetryPolicy
from gantrymq.client.sending.selectors import Balancing, Destination, resolve_destination
from gantrymq.model.queue import MessageQueue

_NO_CODES: Final = frozenset[int]()
_ONE_QUEUE: Final = RetryPolicy(attempts=1, retry_codes=_NO_CODES, one_queue=True)


class SendModes:
    """Send modes of one producer, from its start to its close; messages are validated before."""

    def __init__(
        self,
        instance: ClientInstance,
        sender: MessageSender,
        settings: ProducerSettings,
        compressor: Compressor,
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """*begin* creates a task that the producer's close waits for."""
        self.sender = sender
        self._ids = instance.ids
        self._next_id = instance.ids.next
        self._clock = instance.world.clock
        self._settings = settings
        self._compressor = compressor
        self._policy = RetryPolicy(1 + settings.retries)
        self._async_policy = RetryPolicy(1 + settings.async_retries, _NO_CODES)
        self._batching: BatchAccumulator | None = None
        if settings.batching:
            self._batching = BatchAccumulator(instance, sender, settings, self._send_batch, begin)

    def send_single(
        self, message: Message, destination: Destination | None, timeout_s: float | None, is_async: bool = False
    ) -> asyncio.Future[SendResult] | Coroutine[Any, Any, SendResult]:
        """Send *message*.

        Returns:
            A coroutine to be awaited at once, or a future if the message is batched. Errors as `Producer.send`.
        """
        if self._batching is not None and self._batching.takes(message):
            return self._collect(self._batching, message, destination, timeout_s, is_async)
        submission = self._submission(message, lambda: prepare(message, self._next_id))
        policy = self._async_policy if is_async else self._policy
        if self._batching is None:
            return self._send(submission, message, destination, timeout_s, policy)
        return self._send_after_batches(submission, message, destination, timeout_s, policy)

    def start_single(
        self, message: Message, destination: Destination | None, timeout_s: float | None, is_async: bool = False
    ) -> asyncio.Future[SendResult] | Coroutine[Any, Any, SendResult]:
        """Send *message* like `send_single`; later changes to it have no effect."""
        if self._batching is not None:
            if self._batching.takes(message):
                return self._collect(self._batching, message, destination, timeout_s, is_async)
            self._batching.flush(message.topic)
        encoded = prepare(message, self._next_id)
        submission = self._submission(message, lambda: encoded)
        return self._send(submission, message, destination, timeout_s, self._async_policy if is_async else self._policy)

    async def oneway(self, message: Message, destination: Destination | None, timeout_s: float | None) -> None:
        """Hand *message* to a connection. Errors as `Producer.send_oneway`."""
        submission = self._submission(message, lambda: prepare(message, self._next_id))
        queue, balancing = await self._resolve(message, self._destination(destination))
        await self.sender.oneway(submission, queue, self.limit_s(timeout_s), balancing)

    def encode_plain(self, messages: Sequence[Message]) -> PlainBatch | None:
        """Encode the messages of a batch if all are plain, and then need no further checks except of the topic."""
        return prepare_plain(messages, self._ids, self._settings.max_message_bytes)

    async def batch(
        self,
        messages: Sequence[Message],
        destination: Destination | None,
        timeout_s: float | None,
        plain: PlainBatch | None = None,
    ) -> SendResult:
        """Send *messages* as one request; *plain*: from `encode_plain`. Errors as `Producer.send_batch`."""
        topic = messages[0].topic
        await self._flush_topic(topic)
        await self.sender.queues(topic, self.limit_s(timeout_s))
        inner = await self.sender.batch_queues.has_batch_queues(topic)
        encoded = prepare_batch(messages, self._ids, self._settings.max_message_bytes, plain, inner=inner)
        submission = Submission(topic, len(encoded.body), lambda: encoded)
        return await self._send(submission, messages[0], destination, timeout_s, self._policy)

    def flush(self) -> None:
        """Send collected messages."""
        if self._batching is not None:
            self._batching.flush()

    def stop_batching(self) -> None:
        """Send collected messages, and send later ones without batching."""
        if self._batching is not None:
            self._batching.end()

    def limit_s(self, timeout_s: float | None) -> float:
        """Return the timeout in seconds of a send that was given *timeout_s*."""
        if timeout_s is None:
            return self._settings.default_timeout_s
        check_seconds(timeout_s)
        return timeout_s

    def _collect(
        self,
        batching: BatchAccumulator,
        message: Message,
        destination: Destination | None,
        timeout_s: float | None,
        is_async: bool,
    ) -> asyncio.Future[SendResult] | Coroutine[Any, Any, SendResult]:
        return batching.gather(message, self._destination(destination), self.limit_s(timeout_s), is_async=is_async)

    async def _flush_topic(self, topic: str) -> None:
        """Wait until messages collected for *topic* are written."""
        if self._batching is not None and self._batching.flush(topic):
            await self._clock.sleep(0)

    async def _send_batch(self, submission: Submission, group: BatchKey) -> SendResult:
        policy = self._async_policy if group.is_async else self._policy
        policy = policy if group.queue is None else _ONE_QUEUE
        return await self.sender.send(submission, group.queue, group.timeout_s, policy, group.balancing)

    async def _send_after_batches(
        self,
        submission: Submission,
        message: Message,
        destination: Destination | None,
        timeout_s: float | None,
        policy: RetryPolicy,
    ) -> SendResult:
        await self._flush_topic(message.topic)
        return await self._send(submission, message, destination, timeout_s, policy)

    def _send(
        self,
        submission: Submission,
        message: Message,
        destination: Destination | None,
        timeout_s: float | None,
        policy: RetryPolicy,
    ) -> Coroutine[Any, Any, SendResult]:
        destination = self._destination(destination)
        limit_s = self.limit_s(timeout_s)
        if isinstance(destination, Balancing):
            return self.sender.send(submission, None, limit_s, policy, destination)
        return self._send_to(destination, submission, message, limit_s)

    async def _send_to(
        self, destination: Destination, submission: Submission, message: Message, limit_s: float
    ) -> SendResult:
        queue, _ = await self._resolve(message, destination)
        return await self.sender.send(submission, queue, limit_s, _ONE_QUEUE)

    def _destination(self, destination: Destination | None) -> Destination:
        return self._settings.selector if destination is None else destination

    async def _resolve(self, message: Message, destination: Destination) -> tuple[MessageQueue | None, Balancing]:
        """Return the queue of *message*, or the balancing to use."""
        is_selector = not isinstance(destination, MessageQueue | Balancing)
        return resolve_destination(destination, await self.sender.queues(message.topic) if is_selector else (), message)

    def _submission(self, message: Message, make: Callable[[], EncodedMessage]) -> Submission:
        size = len(message.body)
        is_long = size >= self._settings.compress_over_bytes
        return Submission(message.topic, size, make, self._compressor if is_long else None)
