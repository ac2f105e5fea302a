"""Sending messages.

    async with Producer("orders", "127.0.0.1:9876") as producer:
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA"))

Any number of sends may be begun together: at each broker so many are under way, the others wait in a line
(`send_window`), and the time of a send begins when its request is written. What happens to an attempt that fails, and
what may be stored twice because of it, is said in `retries`.

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl, sendKernelImpl),
client/.../producer/DefaultMQProducer.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from gantrymq.client import validation
from gantrymq.client.base import BaseClient
from gantrymq.client.compressor import Compressor
from gantrymq.client.connection_config import ConnectOptions, split_options
from gantrymq.client.encoded_message import in_batches
from gantrymq.client.instance import ClientInstance
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.producer_settings import SEND_TIMEOUT_S, ProducerOptions, ProducerSettings
from gantrymq.client.recall import recall
from gantrymq.client.request_reply import request_and_wait
from gantrymq.client.results import SendResult
from gantrymq.client.retries import RETRY_CODES
from gantrymq.client.selectors import Destination
from gantrymq.client.send_modes import SendModes
from gantrymq.client.send_requests import SendIdentity
from gantrymq.client.sending import MessageSender
from gantrymq.client.tracing.hook_calls import SendHookCaller
from gantrymq.client.tracing.instrumentation import Instrumentation, InstrumentationOptions
from gantrymq.client.user_functions import notify
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = [
    "RETRY_CODES",
    "SEND_TIMEOUT_S",
    "AllProducerOptions",
    "OwnProducerOptions",
    "Producer",
    "ProducerOptions",
]

Result = TypeVar("Result")
Callback = Callable[[SendResult | None, BaseException | None], object]


class OwnProducerOptions(ProducerOptions, InstrumentationOptions, total=False):
    """What a producer of a `Client` takes besides its group."""


class AllProducerOptions(OwnProducerOptions, ConnectOptions, total=False):
    """What a `Producer` takes besides its group."""


class Producer(BaseClient):
    """Sends messages of one producer group; used as ``async with``, or between `start` and `close`.

    Attributes:
        group: its name.
        settings: what was given, and the defaults.
        oneways_dropped: messages of `send_oneway` that were taken and then could not be written.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | None = None,
        **options: Unpack[AllProducerOptions],
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: producer group, named after the application.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            **options: of `ProducerSettings`, such as ``retries=5`` or ``selector=by_key(...)``, of
                `InstrumentationOptions` and of `ConnectOptions`.

        Raises:
            InvalidParameter: the group's name or a setting is not legal, or there is no option of a name given.
            OptionUnusable: compression or its level is unknown, or its package is not installed.
        """
        validation.check_producer_group(group)
        self.group = group
        self._instrumentation = Instrumentation(options.pop("hooks", ()), options.pop("trace", False))
        self._hooks: SendHookCaller | None = None
        settings, connect = split_options(type(self), options, OwnProducerOptions.__annotations__)
        self.settings = ProducerSettings(**settings)
        super().__init__(namesrv, **connect)
        self._compressor = Compressor(self.settings.compression, self.settings.compress_level)
        self._modes: SendModes | None = None
        self.oneways_dropped = 0
        self._under_way: dict[asyncio.Task[Any], None] = {}  # in the order in which they began

    def _register(self, instance: ClientInstance) -> None:
        instance.registration.add_producer(self.group)
        settings = self.settings
        identity = SendIdentity(self.group, settings.default_topic, settings.default_topic_queues)
        sending = MessageSender(instance, identity, settings, self._count_dropped)
        self._modes = SendModes(instance, sending, settings, self._compressor, self._begun)
        self._hooks = self._instrumentation.sends(instance, self.group, settings.max_message_bytes)

    async def _finish(self) -> None:
        if self._modes is not None:
            self._modes.gather_no_more()
        while under_way := [task for task in self._under_way if task not in self._closers]:
            await asyncio.gather(*under_way, return_exceptions=True)  # the end of a send may begin its callback
        await self._instrumentation.flush()

    async def _unregister(self, instance: ClientInstance) -> None:
        await self._instrumentation.close()
        if self._modes is not None:
            self._modes.sending.end()
            self._modes = None
        await instance.registration.remove_producer(self.group)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that messages of *topic* may be sent to, at least one.

        Raises:
            NoRoute: there is none, and the topic cannot be created by sending.
            ConnectFailed: no name server answers.
        """
        names.check_topic(topic)
        return await self._open().sending.queues(topic)

    async def send(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send one message and wait until it is stored; docs/client-producing.md says what is tried again.

        However many tasks do so at once, each message has its turn; they are written in the order of the calls, but one
        of 64 KiB and more only when a thread has compressed it. A send waits for its turn as long as the broker
        finishes others, and *timeout_s* without one finished at most.

        Args:
            message: is not changed; nor may it be changed by others before the call is over.
            queue: to send to, and to no other, or what chooses one (`by_key`); None for what the producer was made
                with, by default the next in turn.
            timeout_s: seconds for all attempts together, pauses included, from when the first request is written; None
                for ``default_timeout_s``.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent; nothing was.
            NoRoute: the topic does not exist and cannot be created.
            SendFailed: no attempt succeeded; says which brokers were tried. The message may be stored all the same
                when an answer was lost.
            BrokerRefused: with a code that another attempt would not help.
            ConnectFailed, ConnectionLost, CallTimeout: no name server answers, or the broker of *queue* does not.
            ClientError: the producer was closed meanwhile.
        """
        modes = self._open()
        validation.check_message(message, self.settings.max_message_bytes)
        if self._hooks is None:
            return await modes.one(message, queue, timeout_s)
        return await self._hooks.around(
            "single", (message,), queue, lambda context: modes.one(context.messages[0], queue, timeout_s)
        )

    def send_soon(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> asyncio.Future[SendResult]:
        """As `send`, begun now: a future with the result, for which `close` waits. Await it, or errors are only logged.

        Those beyond ``max_under_way`` wait in the line of `send` and take memory, some 3 KB each and the body.
        """
        modes = self._open()
        validation.check_message(message, self.settings.max_message_bytes)
        return self._soon(modes, message, queue, timeout_s)

    def send_async(
        self,
        message: Message,
        callback: Callback | None = None,
        queue: Destination | None = None,
        timeout_s: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Begin to send and return at once; `close` waits for it.

        Those beyond ``max_under_way`` wait in the line of `send` and take memory, some 3 KB each and the body: wait for
        the results of a bunch before you begin the next. Unlike Java's, a further attempt names the queue that it goes
        to, and not that of the first.

        Args:
            message: is not changed.
            callback: called as ``callback(result, None)`` or ``callback(None, error)``; `close` waits for one that is
                async. What it raises is logged.
            queue: as in `send`.
            timeout_s: as in `send`.

        Returns:
            A future with the result; without a *callback* await it, or errors are only seen by the event loop.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent.
        """
        modes = self._open()
        validation.check_message(message, self.settings.max_message_bytes)
        future = self._soon(modes, message, queue, timeout_s, is_async=True)
        if callback is not None:
            future.add_done_callback(lambda done: self._report(done, callback))
        return future

    def _soon(
        self,
        modes: SendModes,
        message: Message,
        where: Destination | None,
        timeout_s: float | None,
        is_async: bool = False,
    ) -> asyncio.Future[SendResult]:
        """Begin to send *message* as it is now."""
        if self._hooks is not None:
            return self._begun(
                self._hooks.around(
                    "single",
                    (message,),
                    where,
                    lambda context: modes.one(context.messages[0], where, timeout_s, is_async),
                )
            )
        work = modes.soon(message, where, timeout_s, is_async)
        return work if isinstance(work, asyncio.Future) else self._begun(work)

    async def send_oneway(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> None:
        """Send without an answer: done once the connection has taken the message, which may yet be lost.

        Gives others their turn from time to time, and waits while more than 1 MiB is unwritten, in the order of the
        calls. A message that could not be written because the connection was lost is counted in ``oneways_dropped``,
        and one line of the log says how many there were; what the broker's system took and lost, nobody knows. There is
        one attempt.

        Args:
            message: is not changed; nor may it be changed by others before the call is over.
            queue: as in `send`.
            timeout_s: seconds that the broker may take nothing.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent.
            NoRoute: the topic does not exist and cannot be created, or its broker is gone.
            ConnectFailed: there is no connection to the broker or to any name server.
            CallTimeout: the broker takes nothing; the message was not sent.
        """
        modes = self._open()
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
        """Send messages of one topic as one request; they lie next to each other in one queue.

        Returns:
            One result for all: `SendResult.message_ids` and ``offset_ids`` in the order of the messages,
            ``queue_offset`` that of the first; `SendResult.each` has one for each.

        Raises:
            MessageIllegal: nothing to send, messages that cannot share a batch, or more than ``max_message_bytes``.
            as `send`: everything else.
        """
        validation.check_batch(messages)
        for message in messages:
            validation.check_message(message, self.settings.max_message_bytes)
        modes = self._open()
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
        """Send any number of messages as batches that are as long as they may be, one after the other.

        A batch ends where the topic or ``wait_stored`` changes, and where it would be too long.

        Returns:
            The results, in the order of the messages.

        Raises:
            as `send_batch`: of the first batch that failed; those before it are stored, those behind it not sent.
        """
        messages = tuple(messages)  # it is gone through twice
        for message in messages:
            validation.check_message(message, self.settings.max_message_bytes)
        return tuple(
            [
                await self.send_batch(batch, queue, timeout_s)
                for batch in in_batches(messages, self.settings.max_message_bytes)
            ]
        )

    async def flush(self) -> None:
        """Send what is gathered, and wait until all that was begun before is over: by `send_soon`, or `send_async`.

        How it went, the sends say themselves.
        """
        modes = self._open()
        if self.settings.batching:
            await self._started().world.clock.sleep(0)  # what was begun is gathered
            modes.flush()
        if self._under_way:
            await asyncio.wait(tuple(self._under_way))

    async def request(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> ReceivedMessage:
        """Send a question, and wait for the answer of whoever consumes it (`reply_to`).

        Args:
            message: is not changed.
            queue: as in `send`.
            timeout_s: seconds for both.

        Raises:
            CallTimeout: nobody answered.
            as `send`: it was not sent.
        """
        instance = self._started()
        validation.check_message(message, self.settings.max_message_bytes)
        if not instance.routes.queues_known(message.topic):  # the broker finds us by our heartbeats
            await self.queues(message.topic)
            await instance.registration.send_all()
        limit_s = self._open().limit_s(timeout_s)
        return await request_and_wait(instance, message, limit_s, lambda asked: self.send(asked, queue, limit_s))

    async def recall(self, topic: str, handle: str) -> str:
        """Take a timed message back before it is delivered.

        Args:
            topic: that it was sent to.
            handle: `SendResult.recall_handle`.

        Returns:
            Its message id.

        Raises:
            BrokerRefused: it was delivered, or the handle is none.
            NoRoute, ConnectFailed, ConnectionLost, CallTimeout: its broker gives no answer.
        """
        return await recall(self._started(), self.group, topic, handle)

    @property
    def trace(self) -> MessageTrace | None:
        """What counts the records of its message trace; None where there is none."""
        return self._instrumentation.trace

    def _begun(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def _report(self, done: asyncio.Future[SendResult], callback: Callback) -> None:
        if done.cancelled():
            outcome: tuple[SendResult | None, BaseException | None] = None, asyncio.CancelledError()
        else:
            error = done.exception()
            outcome = (done.result(), None) if error is None else (None, error)
        returned = callback(*outcome)
        if returned is not None:
            name = f"the callback of a send of {self.group}"
            self._begun(notify(name, lambda: returned))

    def _count_dropped(self) -> None:
        self.oneways_dropped += 1

    def _open(self) -> SendModes:
        """What sends. Raises ClientError: `start` was not called, or `close` was."""
        self._started()
        assert self._modes is not None
        return self._modes
