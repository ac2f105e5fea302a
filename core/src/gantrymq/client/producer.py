"""Sending messages.

    async with Producer("orders", "127.0.0.1:9876") as producer:
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA"))

What happens to a failed attempt (``send`` has 1 + retries attempts, each at another broker if there is one):

    attempt                                          send             send_async       to a given queue, oneway
    stored                                           return           return           return
    no connection, connection lost, no answer        next attempt     next attempt     raise
    code 1, 2, 14, 16, 17, 204, 205, 1500            next attempt     raise            raise
    any other code                                   raise            raise            raise

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl, sendKernelImpl),
client/.../impl/MQClientAPIImpl.java (onExceptionImpl), client/.../producer/DefaultMQProducer.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantrymq.client import checks
from gantrymq.client.identity import DEFAULT_INSTANCE
from gantrymq.client.instance import ClientInstance
from gantrymq.client.joined import Joined
from gantrymq.client.outgoing import Outgoing, SendIdentity, prepare, prepare_batch, send_request
from gantrymq.client.results import SendFailed, SendResult, read_send_reply
from gantrymq.client.selection import QueueTurns
from gantrymq.errors import (
    BrokerRefused,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    InvalidParameter,
    NoRoute,
)
from gantrymq.model import names
from gantrymq.model.message import Message
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World

__all__ = ["RETRY_CODES", "SEND_TIMEOUT_S", "Producer"]

SEND_TIMEOUT_S = 3.0
RETRY_CODES = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
_NO_CODES: frozenset[int] = frozenset()
_LOST = (ConnectFailed, ConnectionLost, CallTimeout, NoRoute)

Callback = Callable[[SendResult | None, BaseException | None], object]


class Producer(Joined):
    """Sends messages of one producer group; used as ``async with``, or between `start` and `close`."""

    def __init__(
        self,
        group: str,
        namesrv: str | None = None,
        *,
        world: World | None = None,
        instance_name: str = DEFAULT_INSTANCE,
        unit_name: str = "",
        client_ip: str | None = None,
        tls: bool | TlsClient | None = None,
        retries: int = 2,
        async_retries: int = 2,
        retry_not_stored: bool = False,
        attempt_timeout_s: float | None = None,
        default_topic: str = names.DEFAULT_TOPIC,
        default_topic_queues: int = 4,
        compress_over: int = 4096,
        compress_level: int = 5,
        max_message_bytes: int = checks.MAX_MESSAGE_BYTES,
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: producer group, named after the application.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            world: None for the real one.
            instance_name: clients that share a name share connections; by default none do.
            unit_name: unit of a cluster divided into units.
            client_ip: to be known by; None for the address that leads to the name servers.
            tls: true for TLS with the settings ``tls.client.*``, or a `TlsClient`; None for what ``tls.enable`` says.
                By default any certificate of a server is believed, as in RocketMQ.
            retries: further attempts of `send` and `send_batch`.
            async_retries: further attempts of `send_async`.
            retry_not_stored: try another broker as well when a message is stored less safely than promised.
            attempt_timeout_s: the longest one attempt may take while another is left; None for all the time there is.
            default_topic: a topic that does not exist is created after its likeness, if brokers allow it.
            default_topic_queues: queues per broker of such a topic, at most.
            compress_over: bodies of so many bytes and more are compressed (zlib).
            compress_level: 0 to 9.
            max_message_bytes: the longest body, before compression, and the longest batch.

        Raises:
            InvalidParameter: the group's name is not legal.
        """
        checks.check_producer_group(group)
        self.group = group
        super().__init__(namesrv, world, instance_name, unit_name, client_ip, tls)
        self._identity = SendIdentity(group, default_topic, default_topic_queues)
        self._attempts = 1 + retries
        self._async_attempts = 1 + async_retries
        self._retry_not_stored = retry_not_stored
        self._attempt_timeout_s = attempt_timeout_s
        self._compression = (compress_over, compress_level)
        self._max_bytes = max_message_bytes
        self._turns: QueueTurns | None = None
        self._under_way: dict[asyncio.Task[SendResult], None] = {}  # in the order in which they began

    def _register(self, instance: ClientInstance) -> None:
        instance.register_producer(self.group)
        self._turns = QueueTurns(instance.world.random)

    async def _finish(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _unregister(self, instance: ClientInstance) -> None:
        await instance.unregister_producer(self.group)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Queues that messages of *topic* may be sent to, at least one.

        Raises:
            NoRoute: there is none, and the topic cannot be created by sending.
            ConnectFailed: no name server answers.
        """
        names.check_topic(topic)
        return await self._publish_queues(topic, SEND_TIMEOUT_S)

    async def send(
        self, message: Message, queue: MessageQueue | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Send one message and wait until it is stored; the table above says what is tried again.

        Args:
            message: is not changed.
            queue: to send to, in a single attempt; None to take the next in turn.
            timeout_s: seconds for all attempts together.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent; nothing was.
            NoRoute: the topic does not exist and cannot be created.
            SendFailed: no attempt succeeded; says which brokers were tried. The message may be stored all the same
                when an answer was lost.
            BrokerRefused: with a code that another attempt would not help.
            ConnectFailed, ConnectionLost, CallTimeout: no name server answers, or the broker of *queue* does not.
        """
        return await self._send(self._prepare(message), queue, timeout_s, self._attempts, RETRY_CODES)

    def send_async(
        self,
        message: Message,
        callback: Callback | None = None,
        queue: MessageQueue | None = None,
        timeout_s: float = SEND_TIMEOUT_S,
    ) -> asyncio.Task[SendResult]:
        """Begin to send and return at once; `close` waits for it.

        How many are under way is not limited: wait for the results of a bunch before you begin the next. Unlike Java's,
        a further attempt names the queue that it goes to, and not that of the first.

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
        work = self._send(self._prepare(message), queue, timeout_s, self._async_attempts, _NO_CODES)
        task = asyncio.get_running_loop().create_task(work)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        if callback is not None:
            task.add_done_callback(lambda done: _report(done, callback))
        return task

    async def send_oneway(
        self, message: Message, queue: MessageQueue | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Send without an answer: done once the connection has taken the message, which may yet be lost.

        Raises:
            MessageIllegal, InvalidParameter, NoPermission: the message cannot be sent.
            NoRoute: the topic does not exist and cannot be created, or its broker is gone.
            ConnectFailed: there is no connection to the broker or to any name server.
        """
        outgoing, instance = self._prepare(message), self._started()
        queue = _checked(queue, outgoing.topic) if queue else await self._choose(outgoing.topic, None, timeout_s)
        address = await instance.routes.find_broker(outgoing.topic, queue.broker_name)
        request = send_request(outgoing, queue, self._identity, instance.world.clock.now_ms(), oneway=True)
        await instance.calls.send_oneway(address, request)

    async def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None = None, timeout_s: float = SEND_TIMEOUT_S
    ) -> SendResult:
        """Send messages of one topic as one request; they lie next to each other in one queue.

        Returns:
            One result for all: ids joined by commas, ``queue_offset`` that of the first.

        Raises:
            MessageIllegal: nothing to send, messages that cannot share a batch, or more than ``max_message_bytes``.
            as `send`: everything else.
        """
        checks.check_batch(messages)
        for message in messages:
            checks.check_message(message, self._max_bytes)
        outgoing = prepare_batch(messages, self._started().ids.next, self._max_bytes)
        return await self._send(outgoing, queue, timeout_s, self._attempts, RETRY_CODES)

    def _prepare(self, message: Message) -> Outgoing:
        instance = self._started()
        checks.check_message(message, self._max_bytes)
        return prepare(message, instance.ids.next, *self._compression)

    async def _send(
        self,
        outgoing: Outgoing,
        queue: MessageQueue | None,
        timeout_s: float,
        attempts: int,
        retry_codes: frozenset[int],
    ) -> SendResult:
        clock = self._started().world.clock
        deadline = clock.monotonic() + timeout_s
        if queue is not None:
            return await self._attempt(outgoing, _checked(queue, outgoing.topic), timeout_s)
        result: SendResult | None = None
        tried: list[str] = []
        last: BaseException | None = None
        await self._publish_queues(outgoing.topic, timeout_s)  # that there is no route is no failed attempt
        for attempt in range(attempts):
            left_s = deadline - clock.monotonic()
            if left_s <= 0:
                break
            chosen = await self._choose(outgoing.topic, tried[-1] if tried else None, left_s)
            if self._attempt_timeout_s is not None and attempt + 1 < attempts:
                left_s = min(left_s, self._attempt_timeout_s)
            tried.append(chosen.broker_name)
            try:
                result = await self._attempt(outgoing, chosen, left_s)
            except BrokerRefused as error:
                last = error
                if error.response_code not in retry_codes:
                    if result is not None:
                        return result
                    raise
            except _LOST as error:
                last = error
            else:
                if result.ok or not self._retry_not_stored:
                    return result
        if result is not None:
            return result
        raise SendFailed(outgoing.topic, tried, last, timeout_s) from last

    async def _attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout_s: float) -> SendResult:
        instance = self._started()
        address = instance.routes.master(queue.broker_name)
        if address is None:
            address = await instance.routes.find_broker(outgoing.topic, queue.broker_name)
        request = send_request(outgoing, queue, self._identity, instance.world.clock.now_ms())
        reply = await instance.calls.send(address, request, timeout_s)
        return read_send_reply(reply, address, outgoing.topic, queue.broker_name, outgoing.unique_id)

    async def _choose(self, topic: str, avoid_broker: str | None, timeout_s: float) -> MessageQueue:
        assert self._turns is not None
        return self._turns.choose(topic, await self._publish_queues(topic, timeout_s), avoid_broker)

    async def _publish_queues(self, topic: str, timeout_s: float) -> tuple[MessageQueue, ...]:
        identity = self._identity
        return await self._started().routes.publish_queues(
            topic, identity.default_topic, identity.default_topic_queues, min(timeout_s, SEND_TIMEOUT_S)
        )


def _checked(queue: MessageQueue, topic: str) -> MessageQueue:
    if queue.topic != topic:
        raise InvalidParameter(f"the message is for topic {topic}, the queue given is one of {queue.topic}")
    return queue


def _report(task: asyncio.Task[SendResult], callback: Callback) -> None:
    if task.cancelled():
        callback(None, asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        callback(None, error)
    else:
        callback(task.result(), None)
