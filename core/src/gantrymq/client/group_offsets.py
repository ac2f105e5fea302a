"""Offsets of one group, asked of brokers and stored there.

Sources: apache/rocketmq client/.../impl/MQAdminImpl.java (minOffset, maxOffset, searchOffset),
client/.../consumer/store/RemoteBrokerOffsetStore.java.
"""

from __future__ import annotations

from gantrymq.client.instance import ClientInstance
from gantrymq.client.rpc import OFFSET_CALL_TIMEOUT_S, reply_header
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.offsets import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetByTimestampRequest,
    UpdateConsumerOffsetRequest,
)

__all__ = ["GroupOffsets"]


class GroupOffsets:
    """Asks and tells brokers. Every method raises `NoRoute` where the queue's broker is not known, `BrokerRefused` with
    its code, and ConnectFailed, ConnectionLost or CallTimeout where there is no answer."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """For *group*, over the connections of *instance*."""
        self._instance = instance
        self._group = group

    async def least(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has; 0 for an empty one."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def at(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none."""
        header = SearchOffsetByTimestampRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            boundary_type="LOWER",
            bname=queue.broker_name,
        )
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset, None when it has none.

        For a group without one, a broker answers 0 while the queue's first message is still in memory.
        """
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        try:
            return await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset; done when the broker has it. It is not looked at."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        address = await self._instance.routes.find_broker(queue.topic, queue.broker_name, 0)
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await self._instance.rpc.ask(address, code, header, timeout_s=OFFSET_CALL_TIMEOUT_S)

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: Header) -> int:
        address = await self._instance.routes.find_broker(queue.topic, queue.broker_name, 0)
        reply = await self._instance.rpc.ask(address, code, header, timeout_s=OFFSET_CALL_TIMEOUT_S)
        return reply_header(OffsetResponse, reply, address).offset
