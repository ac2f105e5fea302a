"""Producers.

    producer = client.producer("orders")
    result = await producer.send(Message("TopicTest", b"hello", tags="TagA"))

Any number of sends may be started concurrently: a limited number is in flight at each broker, the others wait
(`send_window`), and the timeout of a send starts when its request is written. Retries, and when they may store a
message twice, are described in `retries`.

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl, sendKernelImpl),
client/.../producer/DefaultMQProducer.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gantrymq.client.argument_types import shown
from gantrymq.client.calls.connection_config import settings_of
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.connection.request_reply import request_and_wait
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.producing.send_modes import SendModes
from gantrymq.client.sending import validation
from gantrymq.client.sending.encoded_message import Compressor, in_batches
from gantrymq.client.sending.message_sender import MessageSender
from gantrymq.client.sending.producer_settings import SEND_TIMEOUT_S, Batching, ProducerSettings
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.retries import RETRY_CODES
from gantrymq.client.sending.selectors import Balancing, Destination, Selector
from gantrymq.client.sending.send_requests import ProducerFields, recall
from gantrymq.client.tracing.hook_calls import SendHookCaller
from gantrymq.client.tracing.instrumentation import Instrumentation, InstrumentationOptions
from gantrymq.client.user_functions import notify
from gantrymq.errors import InvalidParameter, MessageIllegal
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = [
    "RETRY_CODES",
    "SEND_TIMEOUT_S",
    "Producer",
    "ProducerOptions",
]

Result = TypeVar("Result")
Callback = Callable[[SendResult | None, BaseException | None], object]


class ProducerOptions(InstrumentationOptions, total=False):
    """Options of `Client.producer`, each may be omitted: the fields of `ProducerSettings`, hooks and trace."""

    default_timeout_s: float
    retries: int
    async_retries: int
    retry_not_stored: bool
    attempt_timeout_s: float | None
    selector: Selector | Balancing
    latency_fault_tolerance: bool
    detect_faults: bool
    batching: Batching | bool
    default_topic: str
    default_topic_queues: int
    compress_over_bytes: int
    compression: str
    compress_level: int
    max_message_bytes: int
    max_under_way: int
    max_under_way_bytes: int


class Producer(Part):
    """Sends messages of one producer group; created by `Client.producer`, usable until `close`.

    Attributes:
        group: its name.
        settings: the given options, with defaults for the others.
        oneways_dropped: messages accepted by `send_oneway` that could not be written.
    """

    def __init__(
        self, group: str, *, hooks: Iterable[Hook] = (), trace: bool | MessageTrace = False, **settings: Any
    ) -> None:
        """Store the options, as `Client.producer` passes them on; *settings* are those of `ProducerSettings`.

        Raises:
            InvalidParameter: the group's name or a setting is not legal, or an option is unknown.
            OptionUnusable: compression or its level is unknown, or its package is not installed.
        """
        super().__init__()
        validation.check_producer_group(group)
        self.group = group
        self._instrumentation = Instrumentation(hooks, trace)
        self._hooks: SendHookCaller | None = None
        self.settings = settings_of(type(self), ProducerSettings, settings)
        self._compressor = Compressor(self.settings.compression, self.settings.compress_level)
        self._modes: SendModes | None = None
        self.oneways_dropped = 0
        self._under_way: dict[asyncio.Task[Any], None] = {}  # in start order

    def _register(self, instance: ClientInstance) -> None:
        instance.registration.add_producer(self.group)
        settings = self.settings
        producer = ProducerFields(self.group, settings.default_topic, settings.default_topic_queues)
        sender = MessageSender(instance, producer, settings, self._count_dropped)
        self._modes = SendModes(instance, sender, settings, self._compressor, self._start_task)
        self._hooks = self._instrumentation.sends(instance, self.group, settings.max_message_bytes)

    async def _finish(self) -> None:
        if self._modes is not None:
            self._modes.stop_batching()
        while under_way := [task for task in self._under_way if task not in self._closers]:
            await asyncio.gather(*under_way, return_exceptions=True)  # a finished send may start an async callback
        await self._instrumentation.flush()

    async def _unregister(self, instance: ClientInstance) -> None:
        await self._instrumentation.close()
        if self._modes is not None:
            self._modes.sender.end()
            self._modes = None
        await instance.registration.remove_producer(self.group)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that messages of *topic* may be sent to, at least one.

        Raises:
            NoRoute: there is none, and the topic cannot be created by sending.
            ConnectFailed: no name server answers.
        """
        names.check_topic(topic)
        return await self._send_modes().sender.queues(topic)

    async def send(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send one message and wait until it is stored; docs/client/producing.md describes the retries.

        Concurrent sends are written in the order of the calls, except that a message of 64 KiB or more waits for a
        thread to compress it. A send waits for room at its broker as long as the broker finishes other sends, and at
        most *timeout_s* without progress.

        Args:
            message: is not modified; do not modify it until the call returns.
            queue: the only queue to send to, or a selector of one (`by_key`); None for the producer's selector, by
                default round robin.
            timeout_s: seconds for all attempts together, pauses included, from when the first request is written; None
                for ``default_timeout_s``.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message is invalid; nothing was sent.
            NoRoute: the topic does not exist and cannot be created.
            SendFailed: no attempt succeeded; names the brokers tried. The message may still be stored if a response was
                lost.
            BrokerRefused: refused with a code for which a retry does not help.
            ConnectFailed, ConnectionLost, CallTimeout: no name server answers, or the broker of *queue* does not.
            ClientError: the producer was closed meanwhile.
        """
        modes = self._send_modes()
        validation.check_message(message, self.settings.max_message_bytes)
        if self._hooks is None:
            return await modes.send_single(message, queue, timeout_s)
        return await self._hooks.around(
            "single", (message,), queue, lambda context: modes.send_single(context.messages[0], queue, timeout_s)
        )

    def send_soon(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> asyncio.Future[SendResult]:
        """Start a `send` and return a future of its result; `close` waits for it. Await it, or errors are only logged.

        Sends beyond ``max_under_way`` wait as in `send` and take memory, about 3 KB each plus the body.
        """
        modes = self._send_modes()
        validation.check_message(message, self.settings.max_message_bytes)
        return self._start_send(modes, message, queue, timeout_s)

    def send_async(
        self,
        message: Message,
        callback: Callback | None = None,
        queue: Destination | None = None,
        timeout_s: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Start a send and return at once; `close` waits for it.

        Sends beyond ``max_under_way`` wait as in `send` and take memory, about 3 KB each plus the body: wait for the
        results of one group of sends before starting the next. Unlike in Java's client, a retry names the queue that it
        goes to, not the queue of the first attempt.

        Args:
            message: is not modified.
            callback: called as ``callback(result, None)`` or ``callback(None, error)``; `close` waits for an async one.
                Exceptions that it raises are logged.
            queue: see `send`.
            timeout_s: see `send`.

        Returns:
            A future of the result; without a *callback*, await it, or only the event loop reports errors.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message is invalid.
        """
        modes = self._send_modes()
        validation.check_message(message, self.settings.max_message_bytes)
        if callback is not None and not callable(callback):
            raise InvalidParameter(f"the callback of send_async is {shown(callback)}; expected a function")
        future = self._start_send(modes, message, queue, timeout_s, is_async=True)
        if callback is not None:
            future.add_done_callback(lambda done: self._run_callback(done, callback))
        return future

    def _start_send(
        self,
        modes: SendModes,
        message: Message,
        destination: Destination | None,
        timeout_s: float | None,
        is_async: bool = False,
    ) -> asyncio.Future[SendResult]:
        """Start sending *message*; later changes to it have no effect."""
        if self._hooks is not None:
            return self._start_task(
                self._hooks.around(
                    "single",
                    (message,),
                    destination,
                    lambda context: modes.send_single(context.messages[0], destination, timeout_s, is_async),
                )
            )
        work = modes.start_single(message, destination, timeout_s, is_async)
        return work if isinstance(work, asyncio.Future) else self._start_task(work)

    async def send_oneway(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> None:
        """Send without a response: returns once the connection has accepted the message, which may still be lost.

        Yields to other tasks from time to time, and waits while more than 1 MiB is unwritten, in the order of the
        calls. Messages that could not be written because the connection was lost are counted in ``oneways_dropped`` and
        reported by one log line; loss after that point goes unnoticed. There is one attempt.

        Args:
            message: is not modified; do not modify it until the call returns.
            queue: see `send`.
            timeout_s: maximum seconds to wait while the connection accepts no data.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message is invalid.
            NoRoute: the topic does not exist and cannot be created, or its broker is gone.
            ConnectFailed: cannot connect to the broker or to any name server.
            CallTimeout: the connection accepted no data; the message was not sent.
        """
        modes = self._send_modes()
        validation.check_message(message, self.settings.max_message_bytes)
        if self._hooks is None:
            await modes.oneway(message, queue, timeout_s)
            return
        await self._hooks.around(
            "oneway", (message,), queue, lambda context: modes.oneway(context.messages[0], queue, timeout_s)
        )

    async def send_batch(
        self,
        messages: Sequence[Message],
        queue: Destination | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send messages of one topic as one request; they are stored consecutively in one queue.

        Returns:
            One result for all: `SendResult.message_ids` and ``offset_ids`` in the order of the messages, and the
            ``queue_offset`` of the first; `SendResult.each` has one result for each message.

        Raises:
            MessageIllegal: no messages, messages that cannot share a batch, or more than ``max_message_bytes``.
            as `send`: all other errors.
        """
        sends = self._modes if self._hooks is None else None
        if sends is not None and (plain := sends.encode_plain(messages)) is not None:
            validation.check_batch_topic(messages[0].topic)
            return await sends.batch(messages, queue, timeout_s, plain)
        validation.check_batch(messages)
        for message in messages:
            validation.check_message(message, self.settings.max_message_bytes)
        modes = self._send_modes()
        if self._hooks is None:
            return await modes.batch(messages, queue, timeout_s)
        return await self._hooks.around(
            "batch", messages, queue, lambda context: modes.batch(context.messages, queue, timeout_s)
        )

    async def send_batches(
        self,
        messages: Iterable[Message],
        queue: Destination | None = None,
        timeout_s: float | None = None,
    ) -> tuple[SendResult, ...]:
        """Send any number of messages as batches of maximum size, one after the other.

        A batch ends when the topic or ``wait_stored`` changes, or when it would be too long.

        Returns:
            The results, in the order of the messages.

        Raises:
            as `send_batch`: for the first batch that failed; earlier batches are stored, later ones are not sent.
        """
        if not isinstance(messages, Iterable):
            raise MessageIllegal(f"messages is {shown(messages)}; expected a sequence of Message")
        messages = tuple(messages)  # iterated twice
        for message in messages:
            validation.check_message(message, self.settings.max_message_bytes)
        return tuple(
            [
                await self.send_batch(batch, queue, timeout_s)
                for batch in in_batches(messages, self.settings.max_message_bytes)
            ]
        )

    async def flush(self) -> None:
        """Send collected messages and wait for all sends started before by `send_soon` and `send_async`.

        Errors are reported by those sends, not by `flush`.
        """
        modes = self._send_modes()
        if self.settings.batching:
            await self._started().world.clock.sleep(0)  # let the sends already started reach their batches
            modes.flush()
        if self._under_way:
            await asyncio.wait(tuple(self._under_way))

    async def request(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> ReceivedMessage:
        """Send a request message and wait for its reply, which its consumer sends with `reply_to`.

        Args:
            message: is not modified.
            queue: see `send`.
            timeout_s: seconds for sending and waiting together.

        Raises:
            CallTimeout: no reply.
            as `send`: the request was not sent.
        """
        instance = self._started()
        validation.check_message(message, self.settings.max_message_bytes)
        limit_s = self._send_modes().limit_s(timeout_s)
        if not instance.routes.queues_known(message.topic):  # the broker needs our heartbeat to push the reply
            await self.queues(message.topic)
            await instance.registration.send_all()
        return await request_and_wait(
            message,
            limit_s,
            lambda asked: self.send(asked, queue, limit_s),
            world=instance.world,
            client_id=instance.client_id,
            replies=instance.broker_requests.replies,
        )

    async def recall(self, topic: str, handle: str) -> str:
        """Cancel the delivery of a timed message.

        Args:
            topic: topic of the message.
            handle: `SendResult.recall_handle`.

        Returns:
            The message id.

        Raises:
            BrokerRefused: the message was already delivered, or the handle is invalid.
            NoRoute, ConnectFailed, ConnectionLost, CallTimeout: its broker does not respond.
        """
        return await recall(self._started(), self.group, topic, handle)

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with its counters; None without one."""
        return self._instrumentation.trace

    def _start_task(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def _run_callback(self, done: asyncio.Future[SendResult], callback: Callback) -> None:
        if done.cancelled():
            outcome: tuple[SendResult | None, BaseException | None] = None, asyncio.CancelledError()
        else:
            error = done.exception()
            outcome = (done.result(), None) if error is None else (None, error)
        returned = callback(*outcome)
        if returned is not None:
            name = f"the callback of a send of {self.group}"
            self._start_task(notify(name, lambda: returned))

    def _count_dropped(self) -> None:
        self.oneways_dropped += 1

    def _send_modes(self) -> SendModes:
        """Return the send modes. Raises ClientError if the producer is not started."""
        self._started()
        assert self._modes is not None
        return self._modes
