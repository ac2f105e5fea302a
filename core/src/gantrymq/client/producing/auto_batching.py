"""Automatic batching: single sends are collected into batches.

    send, send_soon, send_async  ->  a batch key: topic, queue or balancing, wait_stored, timeout, kind of send, and
                                     the tag on batch queues
    batch  ->  one request, once it holds ``max_bytes`` or ``max_messages``, or its first message waited ``max_wait_ms``
    response  ->  a result, or the error, for each message

A message is sent on its own if it cannot be part of a batch (delayed, transactional, to a retry topic, with system
properties) or would not benefit (large enough to be compressed or to fill a batch). The messages already collected for
its topic are sent first. If the broker rejects a batch as illegal, its messages are sent one by one, so that only the
offending one fails. Cancelling a send while its message is being collected withdraws the message; cancelling it later
affects neither the other messages nor what is stored.

Sources: apache/rocketmq client/.../producer/ProduceAccumulator.java, DefaultMQProducer.java (canBatch,
sendByAccumulator).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import Message
from gantrymq.client.sending.encoded_message import BatchBuilder, batch_entry
from gantrymq.client.sending.message_sender import MessageSender, Submission
from gantrymq.client.sending.producer_settings import Batching, ProducerSettings
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.selectors import Balancing, Destination, resolve_destination
from gantrymq.client.sending.validation import is_delayed
from gantrymq.errors import BrokerRefused
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.properties import UNIQ_KEY
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import ResponseCode
from gantrymq.world import Timer

_ALLOWED: Final = frozenset({UNIQ_KEY})  # hooks give a message its id before it is sent


class BatchKey(NamedTuple):
    """Common properties of the messages of one batch."""

    topic: str
    queue: MessageQueue | None
    balancing: Balancing
    wait_stored: bool
    timeout_s: float
    is_async: bool  # sent by `send_async`, which has its own retry policy
    inner: bool  # the topic has batch queues
    tag: str | None  # on batch queues


class _PendingBatch:
    """Messages of a batch that is not sent yet."""

    __slots__ = ("parts", "timer", "waiters")

    def __init__(self, timer: Timer) -> None:
        self.parts = BatchBuilder()
        self.waiters: list[asyncio.Future[SendResult]] = []
        self.timer = timer


class _PendingTopic:
    """Messages of a topic whose route and queue type are not known yet, in the order of the calls."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.is_flushed = False  # flush once the last of them is collected


class BatchAccumulator:
    """Collects the messages of one producer, from its start to its close."""

    def __init__(
        self,
        instance: ClientInstance,
        sender: MessageSender,
        settings: ProducerSettings,
        send: Callable[[Submission, BatchKey], Coroutine[Any, Any, SendResult]],
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Create an empty accumulator.

        Args:
            instance: of the producer.
            sender: of the producer; knows routes and queue types.
            settings: of the producer, with ``batching``.
            send: sends a batch or a single message.
            begin: creates a task that the producer's close waits for.
        """
        self._clock = instance.world.clock
        self._ids = instance.ids
        self._sender = sender
        self._limits = settings.batching if isinstance(settings.batching, Batching) else Batching()
        self._short_bytes = min(settings.compress_over_bytes, settings.max_message_bytes, self._limits.max_bytes)
        self._send = send
        self._begin = begin
        self._groups: dict[BatchKey, _PendingBatch] = {}
        self._first: dict[str, _PendingTopic] = {}  # by topic
        self._ended = False

    def takes(self, message: Message) -> bool:
        """Return whether *message* may be part of a batch."""
        return not (
            not message.system_properties.keys() <= _ALLOWED
            or len(message.body) >= self._short_bytes
            or is_delayed(message)
            or message.topic.startswith(RETRY_PREFIX)
        )

    def gather(
        self, message: Message, destination: Destination, timeout_s: float, *, is_async: bool = False
    ) -> asyncio.Future[SendResult] | Coroutine[Any, Any, SendResult]:
        """Add *message*, for which `takes` is true, to a batch.

        Returns:
            A future, or for a new topic a coroutine that adds the message when awaited. Cancelling it withdraws the
            message.
        """
        topic = message.topic
        queues, inner = self._sender.queues_known(topic), self._sender.batch_queues.known(topic)
        if not queues or inner is None or topic in self._first:
            return self._collect_later(message, destination, timeout_s, is_async=is_async)
        try:
            queue, balancing = resolve_destination(destination, queues, message)
        except Exception as error:  # as without batching: the send fails, not the call
            failed: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        tag = message.tags if inner else None
        return self._add(
            BatchKey(topic, queue, balancing, message.wait_stored, timeout_s, is_async, inner, tag), message
        )

    async def _collect_later(
        self, message: Message, destination: Destination, timeout_s: float, *, is_async: bool
    ) -> SendResult:
        topic = message.topic
        first = self._first.setdefault(topic, _PendingTopic())
        first.waiting += 1
        try:
            async with first.turn:
                queues = await self._sender.queues(topic, timeout_s)
                inner = await self._sender.batch_queues.has_batch_queues(topic)
                queue, balancing = resolve_destination(destination, queues, message)
                tag = message.tags if inner else None
                group = BatchKey(topic, queue, balancing, message.wait_stored, timeout_s, is_async, inner, tag)
                waiter = self._add(group, message)
        finally:
            first.waiting -= 1
            if not first.waiting:
                del self._first[topic]
                if first.is_flushed:
                    self.flush(topic)
        return await waiter

    def _add(self, group: BatchKey, message: Message) -> asyncio.Future[SendResult]:
        entry = batch_entry(message, self._ids)
        limits = self._limits
        gathered = self._groups.get(group)
        if gathered is not None and gathered.parts.size + len(entry.body) > limits.max_bytes:
            self._flush(group)
            gathered = None
        if gathered is None:
            timer = self._clock.call_later(limits.max_wait_ms / 1000, self._flush, group)
            gathered = self._groups[group] = _PendingBatch(timer)
        waiter: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        parts = gathered.parts
        parts.add(message, entry)
        gathered.waiters.append(waiter)
        if self._ended or parts.size >= limits.max_bytes or len(parts.messages) >= limits.max_messages:
            self._flush(group)
        return waiter

    def flush(self, topic: str | None = None) -> bool:
        """Send the collected messages of *topic*, or of all topics. Return False if there are none."""
        for each, first in self._first.items():
            first.is_flushed |= topic in (None, each)
        groups = [group for group in self._groups if topic is None or group.topic == topic]
        for group in groups:
            self._flush(group)
        return bool(groups)

    def end(self) -> None:
        """Send the collected messages and collect no more."""
        self._ended = True
        self.flush()

    def _flush(self, group: BatchKey) -> None:
        gathered = self._groups.pop(group)
        gathered.timer.cancel()
        waiters, parts = gathered.waiters, gathered.parts
        if any(waiter.done() for waiter in waiters):  # cancelled before it was sent
            kept = [number for number, waiter in enumerate(waiters) if not waiter.done()]
            waiters, parts = [waiters[number] for number in kept], parts.subset(kept)
        if waiters:
            self._begin(self._send_batch(group, parts, waiters))

    async def _send_batch(
        self, group: BatchKey, parts: BatchBuilder, waiters: list[asyncio.Future[SendResult]]
    ) -> None:
        try:
            is_batch = len(waiters) > 1
            encoded = parts.build(self._ids, inner=group.inner) if is_batch else parts.first()
            submission = Submission(group.topic, len(encoded.body), lambda: encoded)
            results = (await self._send(submission, group)).each()
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.MESSAGE_ILLEGAL and len(waiters) > 1:
                await self._one_by_one(group, parts, waiters)
            else:
                _fail(waiters, refusal)
        except asyncio.CancelledError:
            for waiter in waiters:
                waiter.cancel()
            raise
        except Exception as error:
            _fail(waiters, error)
        else:
            for waiter, result in zip(waiters, results, strict=True):
                if not waiter.done():
                    waiter.set_result(result)

    async def _one_by_one(
        self, group: BatchKey, parts: BatchBuilder, waiters: list[asyncio.Future[SendResult]]
    ) -> None:
        """Send each message on its own, in order: nothing of the batch was stored."""
        for number, waiter in enumerate(waiters):
            await self._send_batch(group, parts.subset([number]), [waiter])


def _fail(waiters: list[asyncio.Future[SendResult]], error: Exception) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)
