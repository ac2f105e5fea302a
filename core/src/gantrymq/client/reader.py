"""Pulling messages: the application says from which queue and from where.

    async with Reader("readers", "127.0.0.1:9876") as consumer:
        for queue in await consumer.queues("TopicTest"):
            result = await consumer.pull(queue, await consumer.min_offset(queue))

Nothing is shared out between the members of a group, and no offset moves by itself: `commit` stores one.

Sources: apache/rocketmq client/.../impl/consumer/DefaultMQPullConsumerImpl.java, PullAPIWrapper.java,
client/.../impl/MQAdminImpl.java (offsets), client/.../consumer/store/RemoteBrokerOffsetStore.java.
"""

from __future__ import annotations

from typing import Unpack

from gantrymq.client.base import BaseClient
from gantrymq.client.connecting import ConnectOptions
from gantrymq.client.decoding import wanted_tags
from gantrymq.client.group_offsets import GroupOffsets
from gantrymq.client.group_pulls import GroupPulls
from gantrymq.client.heartbeat import ConsumerInfo
from gantrymq.client.instance import ClientInstance
from gantrymq.client.pull_result import PulledRecords, PullResult, read_pull_reply, read_pulled_records
from gantrymq.errors import InvalidParameter
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription
from gantrymq.remoting.command import Command

__all__ = ["Reader"]


class Reader(BaseClient):
    """Reads queues for one consumer group; used as ``async with``, or between `start` and `close`."""

    def __init__(self, group: str, namesrv: str | None = None, **connect: Unpack[ConnectOptions]) -> None:
        """Nothing is opened before `start`.

        Args:
            group: consumer group; brokers see it as an online member with a subscription to every topic it pulls, so
                keep it apart from groups whose members share queues.
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: the group's name is not legal, or there is no option of a name given.
        """
        names.check_group(group)
        self.group = group
        super().__init__(namesrv, **connect)
        self._topics: list[str] = []
        self._pulling: tuple[ClientInstance, GroupPulls] | None = None
        self._ends: dict[MessageQueue, int] = {}  # as pulls told it

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
        pulls = self._pulls()
        self._subscribe(queue.topic)
        wanted = Subscription(queue.topic, expression or ALL, expression_type)
        return await pulls.pull(queue, offset, wanted, max_count=max_count, suspend_ms=suspend_ms)

    def _note(self, queue: MessageQueue, found: PullResult | PulledRecords) -> None:
        self._pulls().note(queue, found)
        self._ends[queue] = found.max_offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has; 0 for an empty one. Raises as `pull`."""
        return await self._offsets().least(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get. Raises as `pull`."""
        return await self._offsets().end(queue)

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none.

        Raises as `pull`.
        """
        return await self._offsets().at(queue, time_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset in *queue*, None when it has none.

        For a group without one, a broker answers 0 while the queue's first message is still in memory.
        Raises as `pull`.
        """
        return await self._offsets().committed(queue)

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
        await self._offsets().commit(queue, offset)

    def _offsets(self) -> GroupOffsets:
        return GroupOffsets(self._started(), self.group)

    def _pulls(self) -> GroupPulls:
        instance = self._started()
        if self._pulling is None or self._pulling[0] is not instance:
            self._pulling = (instance, GroupPulls(instance, self.group))
        return self._pulling[1]

    def _subscribe(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.append(topic)
            self._started().heartbeat_now()

    def _subscriptions(self) -> list[Subscription]:
        return [Subscription(topic) for topic in self._topics]
