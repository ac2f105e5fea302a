"""Offsets of one group, queried from and committed to brokers.

Sources: apache/rocketmq client/.../impl/MQAdminImpl.java (minOffset, maxOffset, searchOffset),
client/.../consumer/store/RemoteBrokerOffsetStore.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gantrymq.client.argument_types import check_kind
from gantrymq.client.calls.rpc import OFFSET_CALL_TIMEOUT_S, reply_header
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import MessageQueue
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

Ask = Callable[[str, RequestCode, Header], Awaitable[Command]]


class GroupOffsets:
    """Queries and commits offsets of one group.

    Every method raises `NoRoute` if the queue's broker is not known, `BrokerRefused` with its code, and ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    def __init__(self, instance: ClientInstance, group: str, ask: Ask | None = None) -> None:
        """For *group*, over the connections of *instance*; *ask* replaces the default request with its 5 s timeout."""
        self._instance = instance
        self._group = group
        self._ask_one = ask or self._ask_for_a_while
        self._first_commits: dict[tuple[str, str], asyncio.Event] = {}  # broker and topic; set when it has ended

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset still in the queue; 0 for an empty queue."""
        check_kind("queue", queue, MessageQueue)
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        check_kind("queue", queue, MessageQueue)
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        check_kind("queue", queue, MessageQueue)
        header = SearchOffsetByTimestampRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            boundary_type="LOWER",
            bname=queue.broker_name,
        )
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, queue: MessageQueue, *, or_zero: bool = True) -> int | None:
        """Return the group's committed offset, or None without one.

        For a group without an offset, a broker answers 0 while the queue's first message is still in memory; without
        *or_zero* only brokers of version 4.9 do.
        """
        check_kind("queue", queue, MessageQueue)
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=None if or_zero else False,
            bname=queue.broker_name,
        )
        try:
            return await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset; return once the broker has confirmed it. The offset is not validated.

        The first commit of a topic is sent alone: of several at once, Java's brokers keep one only, and lose the others
        although they confirm them (ConsumerOffsetManager.commitOffset adds the group's table of offsets twice).
        """
        check_kind("queue", queue, MessageQueue)
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        ended = asyncio.Event()
        first = self._first_commits.setdefault((queue.broker_name, queue.topic), ended)
        if first is not ended:
            await first.wait()
        try:
            await self._ask_master(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        finally:
            ended.set()

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        reply, address = await self._ask_master(queue, code, header)
        return reply_header(OffsetResponse, reply, address).offset

    async def _ask_master(self, queue: MessageQueue, code: RequestCode, header: Header) -> tuple[Command, str]:
        address = await self._instance.routes.find_broker(queue.topic, queue.broker_name, 0)
        return await self._ask_one(address, code, header), address

    async def _ask_for_a_while(self, address: str, code: RequestCode, header: Header) -> Command:
        return await self._instance.rpc.call(address, code, header, timeout_s=OFFSET_CALL_TIMEOUT_S)
