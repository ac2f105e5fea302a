"""Requests of brokers and tools to a consumer: reset offsets, report offsets and state, consume one message.

Source: apache/rocketmq client/.../impl/ClientRemotingProcessor.java, client/.../impl/factory/MQClientInstance.java
(resetOffset, consumerRunningInfo, consumeMessageDirectly), remoting/.../protocol/body/ConsumerRunningInfo.java.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import attrs

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.calls.rpc import reply_header
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import ConsumeStats, ProcessQueue
from gantrymq.client.group.rebalancer import Rebalancer
from gantrymq.errors import ClientError, GantryError, RequestRefused
from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.headers.clients import (
    ConsumeMessageDirectlyRequest,
    GetConsumerStatusRequest,
    ResetOffsetRequest,
)

_RESET_GRACE_S: Final = 10.0  # to wait for in-flight messages of a queue whose offset is reset


@attrs.define
class DirectConsumption:
    """One message sent by a tool for direct consumption, in a process queue that is not assigned to this member."""

    process_queue: ProcessQueue
    result: asyncio.Future[tuple[str, str | None]]  # RocketMQ's CMResult, a remark


class BrokerCallbacks:
    """Implements `gantrymq.client.connection.broker_requests.ConsumerRequestHandler` for one member."""

    def __init__(
        self,
        member: GroupMember,
        rebalancer: Rebalancer,
        stats: ConsumeStats,
        direct_consumptions: dict[int, DirectConsumption] | None,
        started_ms: int,
    ) -> None:
        """Create the callbacks of one consumer.

        Args:
            member: the group member.
            rebalancer: of the member.
            stats: of the member.
            direct_consumptions: direct consumptions in progress, by the id of their process queue; None if the consumer
                does not support direct consumption.
            started_ms: when the consumer was started, in ms since 1970.
        """
        self._member = member
        self._rebalancer = rebalancer
        self._stats = stats
        self._direct_consumptions = direct_consumptions
        self._started_ms = started_ms

    def members_changed(self) -> None:
        """Rebalance soon."""
        self._rebalancer.wake()

    async def answer(self, request: Command) -> Command:
        """Answer one request. Raises GantryError: its message is sent as the answer."""
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            await self._reset(request)
            return response_to(request)
        if request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return response_to(request, body=dumps(self._status(request)))
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return response_to(request, body=dumps(self._running_info()))
        return response_to(request, body=dumps(await self._consume_directly(request)))

    async def _reset(self, request: Command) -> None:
        member = self._member
        topic = reply_header(ResetOffsetRequest, request, "the broker").topic
        offsets = {queue: at for queue, at in _offsets_in(request).items() if queue.topic == topic}
        was_paused, member.paused = member.paused, True
        try:
            leaving = [pq for queue, pq in member.process_queues.items() if queue in offsets]
            await asyncio.gather(*(self._rebalancer.give_up(pq, grace_s=_RESET_GRACE_S) for pq in leaving))
            await member.offset_store.store(offsets)
        finally:
            member.paused = was_paused
            self._rebalancer.wake()

    def _status(self, request: Command) -> dict[str, Any]:
        topic = reply_header(GetConsumerStatusRequest, request, "the broker").topic
        commit_offsets = self._member.commit_offsets()
        return {
            "messageQueueTable": {
                ObjectKey(q.to_json()): at for q, at in sorted(commit_offsets.items()) if q.topic == topic
            }
        }

    def _running_info(self) -> dict[str, Any]:
        member = self._member
        instance = member.instance
        return {
            "mqPopTable": {},
            "mqTable": {
                ObjectKey(queue.to_json()): self._queue_info(h) for queue, h in sorted(member.process_queues.items())
            },
            "properties": self._properties(),
            "statusTable": {
                instance.wrap_name(topic): self._stats.topic_status(topic, instance.world.clock.monotonic())
                for topic in member.subscriptions
            },
            "subscriptionSet": [each.to_json() for _, each in sorted(member.subscriptions.items())],
            "userConsumerInfo": {},
        }

    def _queue_info(self, pq: ProcessQueue) -> dict[str, Any]:
        least, most = pq.bounds
        clock = self._member.instance.world.clock

        def wall_ms(at_s: float | None) -> int:
            return int(clock.now_ms() - (clock.monotonic() - at_s) * 1000) if at_s else 0

        return {
            "cachedMsgCount": pq.count,
            "cachedMsgMaxOffset": most,
            "cachedMsgMinOffset": least,
            "cachedMsgSizeInMiB": pq.bytes >> 20,
            "commitOffset": pq.commit_offset,
            "droped": pq.dropped,
            "lastConsumeTimestamp": wall_ms(pq.last_consumed_s),
            "lastLockTimestamp": wall_ms(pq.locked_s),
            "lastPullTimestamp": wall_ms(pq.last_pull_s),
            "locked": pq.locked_s is not None,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": pq.unlock_tries,
        }

    def _properties(self) -> dict[str, str]:
        member = self._member
        settings = {
            name: ("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in attrs.asdict(member.settings, recurse=False).items()
        }
        return {
            **settings,
            "consumerGroup": member.group,
            "messageModel": member.settings.message_model,
            "consumeFromWhere": member.settings.consume_from_where,
            "PROP_CLIENT_VERSION": "V5_3_3",
            "PROP_CONSUMEORDERLY": str(member.settings.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY" if self._direct_consumptions is None else "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": "".join(f"{each};" for each in member.instance.servers.addresses),
            "PROP_THREADPOOL_CORE_SIZE": "1",
        }

    async def _consume_directly(self, request: Command) -> dict[str, Any]:
        """Deliver the message before all others, and wait until it is consumed."""
        direct_consumptions = self._direct_consumptions
        if direct_consumptions is None:
            raise ClientError(
                f"the lite pull consumer of {self._member.group} polls its messages and takes none from a broker; ask "
                "a consumer that is given its messages"
            )
        header = reply_header(ConsumeMessageDirectlyRequest, request, "the broker")
        clock = self._member.instance.world.clock
        message = next(
            decode_messages(request.payload, header.broker_name or "", unwrap=self._member.instance.unwrap), None
        )
        if message is None:
            raise ClientError("there is no message to consume in the request")
        begun = clock.monotonic()
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        pq = ProcessQueue(queue, message.queue_offset, begun)
        pq.locked_s = math.inf
        direct = DirectConsumption(pq, asyncio.get_running_loop().create_future())
        direct_consumptions[id(pq)] = direct
        try:
            pq.put([message], message.queue_offset + 1)
            self._member.deliveries.offer(pq, first=True)
            result, remark = await direct.result
        finally:
            del direct_consumptions[id(pq)]
            pq.drop()
        return {
            "autoCommit": True,
            "consumeResult": result,
            "order": self._member.settings.orderly,
            "remark": remark,
            "spentTimeMills": int((clock.monotonic() - begun) * 1000),
        }


def _offsets_in(request: Command) -> dict[MessageQueue, int]:
    """Read the body of request 220: a table with queues as keys, or a list as older C++ clients need it.

    Raises:
        RequestRefused: the body is neither.
    """
    try:
        table = loads(request.payload)["offsetTable"]
        if isinstance(table, list):
            return {MessageQueue.from_json(each): int(each["offset"]) for each in table}
        return {MessageQueue.from_json(queue): int(at) for queue, at in dict(table).items()}
    except GantryError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise RequestRefused(1, f"offsets were expected as an offsetTable, got {request.payload[:200]!r}") from error
