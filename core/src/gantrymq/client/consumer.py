"""Pulling messages: the application says from which queue and from where.

    async with PullConsumer("readers", "127.0.0.1:9876") as consumer:
        for queue in await consumer.queues("TopicTest"):
            result = await consumer.pull(queue, await consumer.min_offset(queue))

Nothing is shared out between the members of a group, and no offset moves by itself: `commit` stores one.

Sources: apache/rocketmq client/.../impl/consumer/DefaultMQPullConsumerImpl.java, PullAPIWrapper.java,
client/.../impl/MQAdminImpl.java (offsets), client/.../consumer/store/RemoteBrokerOffsetStore.java.
"""

from __future__ import annotations

from gantrymq.client.base import BaseClient
from gantrymq.client.decoding import wanted_tags
from gantrymq.client.heartbeat import ConsumerInfo
from gantrymq.client.identity import DEFAULT_INSTANCE
from gantrymq.client.instance import ClientInstance
from gantrymq.client.pull_result import PulledRecords, PullResult, read_pull_reply, read_pulled_records
from gantrymq.client.rpc import OFFSET_CALL_TIMEOUT_S, reply_header
from gantrymq.errors import BrokerRefused, InvalidParameter
from gantrymq.loose_json import dumps
from gantrymq.model import names
from gantrymq.model.pull_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.offsets import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetByTimestampRequest,
    UpdateConsumerOffsetRequest,
)
from gantrymq.remoting.headers.pull import PullMessageRequest
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World

__all__ = ["PULL_TIMEOUT_S", "PullConsumer"]

PULL_TIMEOUT_S = 10.0  # beyond the time that the broker may hold a pull
_MAX_BYTES = 0x7FFFFFFF
_MOST_ACCEPTED = 1024


class PullConsumer(BaseClient):
    """Reads queues for one consumer group; used as ``async with``, or between `start` and `close`."""

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
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            group: consumer group; brokers see it as an online member with a subscription to every topic it pulls, so
                keep it apart from groups whose members share queues.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            world: None for the real one.
            instance_name: clients that share a name share connections; by default none do.
            unit_name: unit of a cluster divided into units.
            client_ip: to be known by; None for the address that leads to the name servers.
            tls: true for TLS with the settings ``tls.client.*``, or a `TlsClient`; None for what ``tls.enable`` says.
                By default any certificate of a server is believed, as in RocketMQ.

        Raises:
            InvalidParameter: the group's name is not legal.
        """
        names.check_group(group)
        self.group = group
        super().__init__(namesrv, world, instance_name, unit_name, client_ip, tls)
        self._topics: list[str] = []
        self._suggested: dict[MessageQueue, int] = {}  # broker id to ask next
        self._ends: dict[MessageQueue, int] = {}  # as pulls told it
        self._accepted: set[tuple[str, str, str, str]] = set()  # expressions, as `_check_expression` notes them

    def _register(self, instance: ClientInstance) -> None:
        instance.register_consumer(
            ConsumerInfo(self.group, "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", self._subscriptions)
        )

    async def _unregister(self, instance: ClientInstance) -> None:
        await instance.unregister_consumer(self.group)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Readable queues of *topic*, sorted by broker and id, at least one; asked afresh at every call.

        Raises:
            InvalidParameter: the topic's name is not legal.
            NoRoute: no name server knows the topic, or it cannot be read.
            ConnectFailed: no name server answers.
        """
        names.check_topic(topic)
        queues = await self._started().routes.readable_queues(topic)
        self._subscribe(topic)
        return queues

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str = "*",
        expression_type: str = TAG,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Read messages of one queue from *offset* on. Look at `body_problem` of each before you read its body.

        Args:
            queue: of `queues`.
            offset: queue offset, 0 and more.
            max_count: messages, at most; the broker has a limit of its own (32 of recent ones).
            expression: ``TagA || TagB``, ``*`` for all, or what the filter type understands.
            expression_type: TAG or SQL92.
            suspend_ms: how long the broker may hold the pull until a message arrives; 0 to answer at once.

        Raises:
            NoRoute: no replica of the queue's broker is known.
            BrokerRefused: the broker does not let the group read, or cannot read the expression; of one that is no
                tags the broker is asked first, as a Java broker gives every message where it cannot read it.
            ConnectFailed, ConnectionLost, CallTimeout: the broker, or every name server, gives no answer.
        """
        tags = wanted_tags(expression) if expression_type == TAG else frozenset()
        reply, address = await self._pull(queue, offset, max_count, expression, expression_type, suspend_ms)
        result = read_pull_reply(reply, address, queue.broker_name, tags, offset)
        self._note(queue, result)
        return result

    async def pull_records(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str = "*",
        expression_type: str = TAG,
        suspend_ms: int = 0,
    ) -> PulledRecords:
        """As `pull`, with the records as the broker sent them.

        A broker compares hashes of tags, so that some of these may have another tag.
        """
        reply, address = await self._pull(queue, offset, max_count, expression, expression_type, suspend_ms)
        found = read_pulled_records(reply, address)
        self._note(queue, found)
        return found

    async def _pull(
        self, queue: MessageQueue, offset: int, max_count: int, expression: str, expression_type: str, suspend_ms: int
    ) -> tuple[Command, str]:
        """The reply and who gave it."""
        instance = self._started()
        self._subscribe(queue.topic)
        broker_id = self._suggested.get(queue, 0)
        address = await instance.routes.find_broker(queue.topic, queue.broker_name, broker_id)
        if expression_type != TAG:
            await self._check_expression(instance, address, Subscription(queue.topic, expression, expression_type))
        header = PullMessageRequest(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_count,
            sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if suspend_ms > 0 else 0),
            commit_offset=0,
            suspend_timeout_millis=suspend_ms,
            subscription=expression or "*",
            sub_version=0,
            expression_type=expression_type,
            max_msg_bytes=_MAX_BYTES,
            bname=queue.broker_name,
        )
        timeout_s = PULL_TIMEOUT_S + suspend_ms / 1000
        return await instance.rpc.exchange(address, RequestCode.PULL_MESSAGE, header, timeout_s=timeout_s), address

    def _note(self, queue: MessageQueue, found: PullResult | PulledRecords) -> None:
        self._suggested[queue] = found.suggested_broker_id
        self._ends[queue] = found.max_offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has; 0 for an empty one. Raises as `pull`."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get. Raises as `pull`."""
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none.

        Raises as `pull`.
        """
        header = SearchOffsetByTimestampRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            boundary_type="LOWER",
            bname=queue.broker_name,
        )
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset in *queue*, None when it has none.

        For a group without one, a broker answers 0 while the queue's first message is still in memory.
        Raises as `pull`.
        """
        header = QueryConsumerOffsetRequest(
            consumer_group=self.group, topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store *offset* as the group's place in *queue*; done when the broker has it.

        Args:
            queue: of `queues`.
            offset: of the next message to read, 0 to the queue's end.

        Raises:
            InvalidParameter: it is below 0 or beyond the end, so that messages to come would be passed over.
            as `pull`: everything else.
        """
        if offset < 0:
            raise InvalidParameter(f"offset {offset} cannot be committed; the first one of a queue is 0")
        if offset > self._ends.get(queue, -1):
            self._ends[queue] = await self.max_offset(queue)
            if offset > self._ends[queue]:
                raise InvalidParameter(
                    f"offset {offset} cannot be committed: {queue.topic}, {queue.broker_name}, queue {queue.queue_id} "
                    f"ends at {self._ends[queue]}"
                )
        instance = self._started()
        header = UpdateConsumerOffsetRequest(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        address = await instance.routes.find_broker(queue.topic, queue.broker_name, 0)
        await instance.rpc.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_s=OFFSET_CALL_TIMEOUT_S)

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        instance = self._started()
        address = await instance.routes.find_broker(queue.topic, queue.broker_name, 0)
        reply = await instance.rpc.ask(address, code, header, timeout_s=OFFSET_CALL_TIMEOUT_S)
        return reply_header(OffsetResponse, reply, address).offset

    async def _check_expression(self, instance: ClientInstance, address: str, wanted: Subscription) -> None:
        """Ask a broker once whether it can read an expression. Raises BrokerRefused with its reason."""
        key = (address, wanted.topic, wanted.expression, wanted.type)
        if key in self._accepted:
            return
        body = {"clientId": instance.client_id, "group": self.group, "subscriptionData": wanted.to_json()}
        await instance.rpc.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=dumps(body))
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(key)

    def _subscribe(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.append(topic)
            self._started().heartbeat_now()

    def _subscriptions(self) -> list[Subscription]:
        return [Subscription(topic) for topic in self._topics]
