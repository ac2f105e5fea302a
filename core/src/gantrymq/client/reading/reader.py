"""Readers: consume topics without group membership, from positions that the application chooses.

    async for message in client.reader("Orders", start="first"):
        print(message.body)

A reader only sends pull requests. It sends no heartbeats, so it is not a member of any group and causes no rebalance.
Offsets are committed only by `commit`, for the group given.

Sources: apache/rocketmq client/.../impl/consumer/DefaultMQPullConsumerImpl.java, PullAPIWrapper.java,
client/.../impl/MQAdminImpl.java (offsets), client/.../consumer/store/RemoteBrokerOffsetStore.java.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, TypedDict, Unpack

import attrs

from gantrymq.client.argument_types import check_kind, check_mapping, check_number, check_text, number_from
from gantrymq.client.calls.connection_config import settings_of
from gantrymq.client.calls.decoding import parse_tags
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.backwards import BackwardPage, first_ends, read_back
from gantrymq.client.reading.group_offsets import GroupOffsets
from gantrymq.client.reading.group_pulls import GroupPulls
from gantrymq.client.reading.pull_result import PulledRecords, PullResult, read_pull_reply, read_pulled_records
from gantrymq.client.reading.queue_reading import follow as _follow
from gantrymq.client.reading.queue_reading import read
from gantrymq.client.reading.topic_reading import Start, TopicFollower, check_start, first_offsets, read_to_end
from gantrymq.errors import BrokerRefused, ClientError, InvalidParameter
from gantrymq.formats.compression import MAX_BODY_BYTES
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription
from gantrymq.remoting.codes import ResponseCode
from gantrymq.remoting.command import Command

logger = logging.getLogger("gantrymq.client")

_TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # exists on every broker, and has no members to rebalance


@attrs.frozen(kw_only=True)
class ReaderSettings:
    """Settings of a reader. Raises InvalidParameter if a value is not legal."""

    start: Start = attrs.field(default="first", converter=check_start)
    """Where iteration starts: ``"first"``, ``"last"``, a store time in ms since 1970, or a mapping of queues to
    offsets, such as `Reader.positions` of an earlier reader; queues missing from it are read from their first message.
    """

    follow: bool = False
    """Whether iteration waits for new messages; otherwise it ends at the offsets where the queues ended when it
    started.
    """

    expression: str = ALL
    """``TagA || TagB``, ``*`` for all, or an expression of the filter type."""

    expression_type: str = TAG
    """TAG or SQL92."""

    group: str | None = None
    """Consumer group for `Reader.committed` and `Reader.commit`, and for the broker's read permission; None for
    TOOLS_CONSUMER, which exists on every broker.
    """

    check_crcs: bool = False
    """Whether to compare bodies with the check sums of their records, see `body_problem`."""

    max_body_bytes: int = attrs.field(default=MAX_BODY_BYTES, validator=number_from(1))
    """How much of a compressed body to decompress. Of a larger one a message has the beginning, with the reason in
    `body_problem`, see `ReceivedMessage.is_shortened`.
    """


class ReaderOptions(TypedDict, total=False):
    """Options of `Client.reader`, each may be omitted: the fields of `ReaderSettings`."""

    start: Start
    follow: bool
    expression: str
    expression_type: str
    group: str | None
    check_crcs: bool
    max_body_bytes: int


class Reader(Part):
    """Reads a topic, or single queues; created by `Client.reader`, usable until `close`."""

    def __init__(self, topic: str | None = None, **options: Unpack[ReaderOptions]) -> None:
        """Store the options, as `Client.reader` passes them on.

        Raises:
            InvalidParameter: a name or option is not legal, or an option is unknown.
        """
        super().__init__()
        self.settings = settings = settings_of(type(self), ReaderSettings, options)
        if topic is not None:
            names.check_topic(topic)
        self.topic = topic
        self.group = settings.group or _TOOLS_GROUP
        self._expression = settings.expression or ALL
        names.check_group(self.group)
        self._pulling: tuple[ClientInstance, GroupPulls] | None = None
        self._ends: dict[MessageQueue, int] = {}  # max offsets returned by pulls
        self._places: dict[MessageQueue, int] = {}
        self._following: set[TopicFollower] = set()

    async def _finish(self) -> None:
        for following in self._following:
            following.stop()

    def __aiter__(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Iterate over the messages of the topic from ``start``; each loop starts there again.

        Messages of one queue are in order. Check `body_problem` of each before you use its body.

        Raises:
            ClientError: the reader has no topic, or is not started.
            as `pull`: all other errors; with ``follow``, an unreachable broker is retried every second.
        """
        return self._messages()

    async def _messages(self) -> AsyncGenerator[ReceivedMessage, None]:
        topic = self._topic(None)
        instance = self._started()
        starts = await first_offsets(self, await self.queues(), self.settings.start)
        self._places = dict(starts)
        clock, outages = instance.world.clock, instance.outages
        following = TopicFollower(self, topic, clock, outages, self._expression, self.settings.expression_type)
        if self.settings.follow:
            self._following.add(following)
            stream = following.messages(starts)
        else:
            stream = read_to_end(self, starts, self._expression, self.settings.expression_type)
        try:
            async with aclosing(stream) as messages:
                async for message in messages:
                    queue = MessageQueue(topic, message.broker_name, message.queue_id)
                    if message.queue_id >= 0:  # -1 if its record could not be decoded
                        self._places[queue] = message.queue_offset + 1
                    yield message
        finally:
            self._following.discard(following)

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """Next offset of each queue in the latest loop; may be passed as ``start``."""
        return dict(self._places)

    def read(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        end: int | None = None,
        follow: bool = False,
        expression: str | None = None,
        expression_type: str | None = None,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Iterate over the messages of one queue.

        Args:
            queue: of `queues`.
            offset: first offset; if it no longer exists, the first one that does.
            end: offset to stop before; None to read to the end.
            follow: whether to wait for new messages.
            expression: None for the reader's expression and type.
            expression_type: None for the reader's.

        Errors as `pull`; with *follow*, an unreachable broker is retried every second.
        """
        instance = self._started()
        text, kind = self._filter(expression, expression_type)
        if not follow:
            return read(self, queue, offset, end=end, expression=text, expression_type=kind)
        if end is not None:
            raise InvalidParameter(f"end={end} and follow=True exclude each other; leave one of them out")
        return _follow(
            self,
            queue,
            offset,
            clock=instance.world.clock,
            outages=instance.outages,
            problem=logger.warning,
            expression=text,
            expression_type=kind,
        )

    async def read_back(
        self,
        ends: Mapping[MessageQueue, int] | None = None,
        *,
        before_ms: int | None = None,
        max_count: int = 32,
        max_bytes: int = 8 * 1024 * 1024,
        max_scanned: int = 100_000,
        expression: str | None = None,
        expression_type: str | None = None,
    ) -> BackwardPage:
        """Return messages newest first, merged by store time, and where to go on. Reads a page, not to the beginning.

        Check `body_problem` of each message before you use its body.

        Args:
            ends: queues and the offsets before which to read, such as `BackwardPage.ends`; None for the current ends of
                all queues of the reader's topic.
            before_ms: only messages stored before this time, ms since 1970.
            max_count: maximum number of messages.
            max_bytes: size of the bodies after which the page ends. About twice as much is read at once, and at least
                one message of each queue.
            max_scanned: number of queue entries after which the page ends, even without a message that matches.
            expression: None for the reader's expression and type.
            expression_type: None for the reader's.

        Raises:
            ClientError: neither *ends* nor a topic of the reader is given.
            InvalidParameter: a limit is less than 1.
            as `pull`: all other errors.
        """
        for name, number in (("max_count", max_count), ("max_bytes", max_bytes), ("max_scanned", max_scanned)):
            check_number(name, number, 1)
        text, kind = self._filter(expression, expression_type)
        if ends is not None:
            check_mapping("ends", ends)
            for queue, end in ends.items():
                check_kind("a queue of ends", queue, MessageQueue)
                check_number("an offset of ends", end, 0)
        else:
            ends = await first_ends(self, await self.queues(), before_ms)
        return await read_back(
            self,
            ends,
            before_ms=before_ms,
            max_count=max_count,
            max_bytes=max_bytes,
            max_scanned=max_scanned,
            expression=text,
            expression_type=kind,
        )

    async def queues(self, topic: str | None = None) -> tuple[MessageQueue, ...]:
        """Return the readable queues of *topic*, sorted by broker and id, at least one; queries a name server each
        time.

        Args:
            topic: None for the reader's.

        Raises:
            ClientError: neither is given.
            InvalidParameter: the topic's name is not legal.
            NoRoute: no name server knows the topic, or it is not readable.
            ConnectFailed: no name server answers.
        """
        instance, topic = self._started(), self._topic(topic)
        names.check_topic(topic)
        return await instance.routes.readable_queues(topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str | None = None,
        expression_type: str | None = None,
        suspend_ms: int = 0,
    ) -> PullResult:
        """Pull messages of one queue, starting at *offset*. Check `body_problem` of each before you use its body.

        Args:
            queue: of `queues`.
            offset: queue offset, 0 or more.
            max_count: maximum number of messages; the broker has its own limit (32 for recent messages).
            expression: None for the reader's expression and type.
            expression_type: None for the reader's.
            suspend_ms: how long the broker may hold the pull until a message arrives; 0 to answer at once.

        Raises:
            NoRoute: no replica of the queue's broker is known.
            BrokerRefused: the group may not read, or the broker cannot parse the expression. An expression other than
                tags is checked at the broker first, because a Java broker returns every message if it cannot parse it.
            ConnectFailed, ConnectionLost, CallTimeout: the broker, or every name server, does not respond.
        """
        text, kind = self._filter(expression, expression_type)
        tags = parse_tags(text) if kind == TAG else frozenset()
        reply, address = await self._pull(queue, offset, max_count, text, kind, suspend_ms)
        result = read_pull_reply(
            reply,
            address,
            queue.broker_name,
            tags,
            offset,
            self._started().unwrap,
            check_crcs=self.settings.check_crcs,
            max_body_bytes=self.settings.max_body_bytes,
        )
        self._note(queue, result)
        return result

    async def pull_records(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str | None = None,
        expression_type: str | None = None,
        suspend_ms: int = 0,
    ) -> PulledRecords:
        """Pull like `pull`, but return the records as the broker sent them.

        The broker compares hashes of tags, so some records may have another tag.
        """
        text, kind = self._filter(expression, expression_type)
        reply, address = await self._pull(queue, offset, max_count, text, kind, suspend_ms)
        found = read_pulled_records(reply, address)
        self._note(queue, found)
        return found

    async def _pull(
        self, queue: MessageQueue, offset: int, max_count: int, expression: str, expression_type: str, suspend_ms: int
    ) -> tuple[Command, str]:
        """Return the response and the address of the broker."""
        check_kind("queue", queue, MessageQueue)
        check_text("expression_type", expression_type)
        check_number("suspend_ms", suspend_ms, 0)
        wanted = Subscription(queue.topic, expression, expression_type)
        return await self._pulls().pull(queue, offset, wanted, max_count=max_count, suspend_ms=suspend_ms)

    def _note(self, queue: MessageQueue, found: PullResult | PulledRecords) -> None:
        self._pulls().note(queue, found)
        self._ends[queue] = found.max_offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset still in the queue; 0 for an empty queue. Raises as `pull`."""
        return await self._offsets().min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get. Raises as `pull`."""
        return await self._offsets().max_offset(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none.

        Raises as `pull`.
        """
        return await self._offsets().offset_for_timestamp(queue, time_ms)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in *queue*, or None without one.

        For a group without an offset, a broker answers 0 while the queue's first message is still in memory.

        Raises:
            ClientError: the reader was created without a group.
            as `pull`: all other errors.
        """
        self._check_group("query")
        return await self._offsets().committed(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit *offset* for the group in *queue*; returns once the broker has confirmed it.

        Args:
            queue: of `queues`.
            offset: of the next message to read, 0 to the queue's end.

        Raises:
            ClientError: the reader was created without a group.
            InvalidParameter: the offset is below 0 or beyond the end, which would skip future messages.
            as `pull`: all other errors.
        """
        self._check_group("commit")
        if offset < 0:
            raise InvalidParameter(f"offset {offset} cannot be committed; the first one of a queue is 0")
        if offset > self._ends.get(queue, -1):
            self._ends[queue] = await self.max_offset(queue)
            if offset > self._ends[queue]:
                raise InvalidParameter(
                    f"offset {offset} cannot be committed: {queue.topic}, {queue.broker_name}, queue {queue.queue_id} "
                    f"ends at {self._ends[queue]}"
                )
        try:
            await self._offsets().commit(queue, offset)
        except BrokerRefused as refusal:
            if refusal.response_code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self.pull(queue, offset, max_count=1)  # the first pull creates the group on a broker
            await self._offsets().commit(queue, offset)

    def _topic(self, topic: str | None) -> str:
        found = topic or self.topic
        if found is None:
            raise ClientError("this reader was created without a topic; name one: client.reader('Orders')")
        return found

    def _filter(self, expression: str | None, expression_type: str | None) -> tuple[str, str]:
        if expression is None:
            return self._expression, expression_type or self.settings.expression_type
        return expression or ALL, expression_type or TAG

    def _check_group(self, what: str) -> None:
        if self.settings.group is None:
            raise ClientError(f"a reader without a group cannot {what} offsets; create it with group='my_group'")

    def _offsets(self) -> GroupOffsets:
        return GroupOffsets(self._started(), self.group)

    def _pulls(self) -> GroupPulls:
        instance = self._started()
        if self._pulling is None or self._pulling[0] is not instance:
            self._pulling = (instance, GroupPulls(instance, self.group))
        return self._pulling[1]
