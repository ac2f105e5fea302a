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
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypedDict, Unpack

from gantrymq.client import checks
from gantrymq.client.base import BaseClient
from gantrymq.client.compressor import Compressor
from gantrymq.client.connecting import ConnectOptions
from gantrymq.client.instance import ClientInstance
from gantrymq.client.outgoing import Outgoing, SendIdentity, in_batches, prepare, prepare_batch
from gantrymq.client.recalling import recall
from gantrymq.client.requesting import requested
from gantrymq.client.results import SendResult
from gantrymq.client.retries import RETRY_CODES, Policy
from gantrymq.client.selectors import Selector
from gantrymq.client.send_window import MOST_BYTES, MOST_SENDS
from gantrymq.client.sending import SEND_TIMEOUT_S, Sending, SendingOptions, Submission
from gantrymq.model import names
from gantrymq.model.message import Message, ReceivedMessage
from gantrymq.model.queue import MessageQueue

__all__ = ["RETRY_CODES", "SEND_TIMEOUT_S", "Producer", "ProducerOptions"]

_NO_CODES: frozenset[int] = frozenset()
_ONE_QUEUE = Policy(attempts=1, retry_codes=_NO_CODES, one_queue=True)

Callback = Callable[[SendResult | None, BaseException | None], object]


class ProducerOptions(TypedDict, total=False):
    """What a `Producer` takes besides its group and `ConnectOptions`; meanings and defaults are said there."""

    retries: int
    async_retries: int
    retry_not_stored: bool
    attempt_timeout_s: float | None
    default_topic: str
    default_topic_queues: int
    compress_over: int
    compression: str
    compress_level: int
    max_message_bytes: int
    max_under_way: int
    max_under_way_bytes: int


class Producer(BaseClient):
    """Sends messages of one producer group; used as ``async with``, or between `start` and `close`.

    Attributes:
        group: its name.
        oneways_dropped: messages of `send_oneway` that were taken and then could not be written.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | None = None,
        *,
        retries: int = 2,
        async_retries: int = 2,
        retry_not_stored: bool = False,
        attempt_timeout_s: float | None = None,
        default_topic: str = names.DEFAULT_TOPIC,
        default_topic_queues: int = 4,
        compress_over: int = 4096,
        compression: str = "zlib",
        compress_level: int = 5,
        max_message_bytes: int = checks.MAX_MESSAGE_BYTES,
        max_under_way: int = MOST_SENDS,
        max_under_way_bytes: int = MOST_BYTES,
        **connect: Unpack[ConnectOptions],
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: producer group, named after the application.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            retries: further attempts of `send` and `send_batch`.
            async_retries: further attempts of `send_async`.
            retry_not_stored: try another broker as well when a message is stored less safely than promised.
            attempt_timeout_s: the longest one attempt may take while another is left; None for all the time there is.
            default_topic: a topic that does not exist is created after its likeness, if brokers allow it.
            default_topic_queues: queues per broker of such a topic, at most.
            compress_over: bodies of so many bytes and more are compressed, where that makes them shorter.
            compression: zlib, which every client reads, or lz4 or zstd, which those from 5.0 on do and which need
                their packages.
            compress_level: 0 to 9; LZ4 has none.
            max_message_bytes: the longest body, before compression, and the longest batch.
            max_under_way: sends to one broker whose answers are not there yet; further ones wait in a line.
            max_under_way_bytes: the same of their bodies before compression, in bytes; a larger one goes by itself.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: the group's name is not legal, or there is no option of a name given.
            ConfigError: compression or its level is unknown, or its package is not installed.
        """
        checks.check_producer_group(group)
        self.group = group
        super().__init__(namesrv, **connect)
        self._policy = Policy(1 + retries)
        self._async_policy = Policy(1 + async_retries, _NO_CODES)
        self._options = SendingOptions(
            identity=SendIdentity(group, default_topic, default_topic_queues),
            retry_not_stored=retry_not_stored,
            attempt_timeout_s=attempt_timeout_s,
            most_sends=max_under_way,
            most_bytes=max_under_way_bytes,
        )
        self._compress_over = compress_over
        self._compressor = Compressor(compression, compress_level)
        self._max_bytes = max_message_bytes
        self._sending: Sending | None = None
        self.oneways_dropped = 0
        self._under_way: dict[asyncio.Task[SendResult], None] = {}  # in the order in which they began

    def _register(self, instance: ClientInstance) -> None:
        instance.register_producer(self.group)
        self._sending = Sending(instance, self._options, self._count_dropped)

    async def _finish(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _unregister(self, instance: ClientInstance) -> None:
        if self._sending is not None:
            self._sending.end()
            self._sending = None
        await instance.unregister_producer(self.group)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that messages of *topic* may be sent to, at least one.

        Raises:
            NoRoute: there is none, and the topic cannot be created by sending.
            ConnectFailed: no name server answers.
        """
        names.check_topic(topic)
        return await self._open().queues(topic)

    async def send(
        self, message: Message, queue: MessageQueue | Selector | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Send one message and wait until it is stored; the table of `retries` says what is tried again.

        However many tasks do so at once, each message has its turn; they are written in the order of the calls, but one
        of 64 KiB and more only when a thread has compressed it. A send waits for its turn as long as the broker
        finishes others, and *timeout_s* without one finished at most.

        Args:
            message: is not changed; nor may it be changed by others before the call is over.
            queue: to send to, and to no other, or what chooses one (`selectors`); None to take the next in turn.
            timeout_s: seconds for all attempts together, pauses included, from when the first request is written.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent; nothing was.
            NoRoute: the topic does not exist and cannot be created.
            SendFailed: no attempt succeeded; says which brokers were tried. The message may be stored all the same
                when an answer was lost.
            BrokerRefused: with a code that another attempt would not help.
            ConnectFailed, ConnectionLost, CallTimeout: no name server answers, or the broker of *queue* does not.
            ClientError: the producer was closed meanwhile.
        """
        sending = self._open()
        checks.check_message(message, self._max_bytes)
        submission = self._submission(message, lambda: self._prepare(message))
        return await self._send(sending, submission, queue, timeout_s, self._policy)

    async def _send(
        self,
        sending: Sending,
        submission: Submission,
        where: MessageQueue | Selector | None,
        timeout_s: float,
        policy: Policy,
    ) -> SendResult:
        queue = await _chosen(sending, submission.topic, where)
        return await sending.send(submission, queue, timeout_s, policy if queue is None else _ONE_QUEUE)

    def send_soon(
        self, message: Message, queue: MessageQueue | Selector | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> asyncio.Task[SendResult]:
        """As `send`, begun now: a task with the result, for which `close` waits. Await it, or errors are only logged.

        Those beyond ``max_under_way`` wait in the line of `send` and take memory, some 3 KB each and the body.
        """
        sending = self._open()
        checks.check_message(message, self._max_bytes)
        outgoing = self._prepare(message)
        submission = self._submission(message, lambda: outgoing)
        return self._begun(self._send(sending, submission, queue, timeout_s, self._policy))

    def send_async(
        self,
        message: Message,
        callback: Callback | None = None,
        queue: MessageQueue | Selector | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> asyncio.Task[SendResult]:
        """Begin to send and return at once; `close` waits for it.

        Those beyond ``max_under_way`` wait in the line of `send` and take memory, some 3 KB each and the body: wait for
        the results of a bunch before you begin the next. Unlike Java's, a further attempt names the queue that it goes
        to, and not that of the first.

        Args:
            message: is not changed.
            callback: called as ``callback(result, None)`` or ``callback(None, error)``.
            queue: as in `send`.
            timeout_s: as in `send`.

        Returns:
            A task with the result; without a *callback* await it, or errors are only seen by the event loop.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent.
        """
        sending = self._open()
        checks.check_message(message, self._max_bytes)
        outgoing = self._prepare(message)
        submission = self._submission(message, lambda: outgoing)
        task = self._begun(self._send(sending, submission, queue, timeout_s, self._async_policy))
        if callback is not None:
            task.add_done_callback(lambda done: _report(done, callback))
        return task

    async def send_oneway(
        self, message: Message, queue: MessageQueue | Selector | None = None, timeout_s: float = SEND_TIMEOUT_S
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
        sending = self._open()
        checks.check_message(message, self._max_bytes)
        submission = self._submission(message, lambda: self._prepare(message))
        await sending.oneway(submission, await _chosen(sending, message.topic, queue), timeout_s)

    async def send_batch(
        self,
        messages: Sequence[Message],
        queue: MessageQueue | Selector | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> SendResult:
        """Send messages of one topic as one request; they lie next to each other in one queue.

        Returns:
            One result for all: `SendResult.message_ids` and ``offset_ids`` in the order of the messages,
            ``queue_offset`` that of the first; `SendResult.each` has one for each.

        Raises:
            MessageIllegal: nothing to send, messages that cannot share a batch, or more than ``max_message_bytes``.
            as `send`: everything else.
        """
        checks.check_batch(messages)
        for message in messages:
            checks.check_message(message, self._max_bytes)
        sending = self._open()
        topic = messages[0].topic
        await sending.queues(topic, timeout_s)
        inner = await sending.batch_queues.are_those_of(topic)
        outgoing = prepare_batch(messages, self._started().ids.next, self._max_bytes, inner=inner)
        submission = Submission(topic, len(outgoing.body), lambda: outgoing)
        return await self._send(sending, submission, queue, timeout_s, self._policy)

    async def send_batches(
        self,
        messages: Sequence[Message],
        queue: MessageQueue | Selector | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> tuple[SendResult, ...]:
        """Send any number of messages as batches that are as long as they may be, one after the other.

        A batch ends where the topic or ``wait_stored`` changes, and where it would be too long.

        Returns:
            The results, in the order of the messages.

        Raises:
            as `send_batch`: of the first batch that failed; those before it are stored, those behind it not sent.
        """
        for message in messages:
            checks.check_message(message, self._max_bytes)
        return tuple(
            [await self.send_batch(batch, queue, timeout_s) for batch in in_batches(messages, self._max_bytes)]
        )

    async def request(
        self, message: Message, queue: MessageQueue | Selector | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> ReceivedMessage:
        """Send a question, and wait for the answer of whoever consumes it (`requesting.reply_to`).

        Args:
            message: is not changed.
            queue: as in `send`.
            timeout_s: seconds for both.

        Raises:
            CallTimeout: nobody answered.
            as `send`: it was not sent.
        """
        instance = self._started()
        if not instance.routes.queues_known(message.topic):  # the broker finds us by our heartbeats
            await self.queues(message.topic)
            await instance.send_heartbeats()
        return await requested(instance, message, timeout_s, lambda asked: self.send(asked, queue, timeout_s))

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

    def _begun(self, work: Coroutine[Any, Any, SendResult]) -> asyncio.Task[SendResult]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def _prepare(self, message: Message) -> Outgoing:
        return prepare(message, self._started().ids.next)

    def _submission(self, message: Message, make: Callable[[], Outgoing]) -> Submission:
        size = len(message.body)
        return Submission(message.topic, size, make, self._compressor if size >= self._compress_over else None)

    def _count_dropped(self) -> None:
        self.oneways_dropped += 1

    def _open(self) -> Sending:
        """What sends. Raises ClientError: `start` was not called, or `close` was."""
        self._started()
        assert self._sending is not None
        return self._sending


async def _chosen(sending: Sending, topic: str, where: MessageQueue | Selector | None) -> MessageQueue | None:
    return where if where is None or isinstance(where, MessageQueue) else where(await sending.queues(topic))


def _report(task: asyncio.Task[SendResult], callback: Callback) -> None:
    if task.cancelled():
        callback(None, asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        callback(None, error)
    else:
        callback(task.result(), None)
