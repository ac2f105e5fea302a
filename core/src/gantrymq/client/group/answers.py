"""What brokers and tools ask the consumer of a group: its offsets, its state, to go elsewhere, to consume one message.

Source: apache/rocketmq client/.../impl/ClientRemotingProcessor.java, client/.../impl/factory/MQClientInstance.java
(resetOffset, consumerRunningInfo, consumeMessageDirectly), remoting/.../protocol/body/ConsumerRunningInfo.java.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

import attrs

from gantrymq.client.decoding import decode_messages
from gantrymq.client.group.figures import Figures
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.sharing import Sharing
from gantrymq.client.rpc import reply_header
from gantrymq.errors import ClientError, GantryError, RefusedWith
from gantrymq.loose_json import ObjectKey, dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.headers.clients import (
    ConsumeMessageDirectlyRequest,
    GetConsumerStatusRequest,
    ResetOffsetRequest,
)

__all__ = ["ConsumerAnswers", "Direct"]

RESET_GRACE_S: Final = 10.0  # for messages in hand of a queue whose offset is set


@attrs.define
class Direct:
    """A message that a tool has consumed here; its queue is held by nobody."""

    held: HeldQueue
    result: asyncio.Future[tuple[str, str | None]]  # RocketMQ's CMResult, a remark


class ConsumerAnswers:
    """`gantrymq.client.broker_requests.ConsumerRequestHandler` of one member."""

    def __init__(
        self,
        member: Membership,
        sharing: Sharing,
        figures: Figures,
        directs: dict[int, Direct] | None,
        started_ms: int,
    ) -> None:
        """What is to be consumed directly stands in *directs*, by the id of its queue, until it is; None: nothing."""
        self._member = member
        self._sharing = sharing
        self._figures = figures
        self._directs = directs
        self._started_ms = started_ms

    def members_changed(self) -> None:
        """As promised."""
        self._sharing.wake()

    async def answer(self, asked: Command) -> Command:
        """As promised."""
        if asked.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            await self._reset(asked)
            return response_to(asked)
        if asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return response_to(asked, body=dumps(self._status(asked)))
        if asked.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return response_to(asked, body=dumps(self._running_info()))
        return response_to(asked, body=dumps(await self._consumed(asked)))

    async def _reset(self, asked: Command) -> None:
        member = self._member
        topic = reply_header(ResetOffsetRequest, asked, "the broker").topic
        wanted = {queue: at for queue, at in _offsets_in(asked).items() if queue.topic == topic}
        was_paused, member.paused = member.paused, True
        try:
            going = [held for queue, held in member.held.items() if queue in wanted]
            await asyncio.gather(*(self._sharing.give_up(held, grace_s=RESET_GRACE_S) for held in going))
            await member.progress.store(wanted)
        finally:
            member.paused = was_paused
            self._sharing.wake()

    def _status(self, asked: Command) -> dict[str, Any]:
        topic = reply_header(GetConsumerStatusRequest, asked, "the broker").topic
        reached = self._member.reached()
        return {
            "messageQueueTable": {ObjectKey(q.to_json()): at for q, at in sorted(reached.items()) if q.topic == topic}
        }

    def _running_info(self) -> dict[str, Any]:
        member = self._member
        instance = member.instance
        return {
            "mqPopTable": {},
            "mqTable": {ObjectKey(queue.to_json()): self._queue_info(h) for queue, h in sorted(member.held.items())},
            "properties": self._properties(),
            "statusTable": {
                instance.wrapped(topic): self._figures.of(topic, instance.world.clock.monotonic())
                for topic in member.subscriptions
            },
            "subscriptionSet": [each.to_json() for _, each in sorted(member.subscriptions.items())],
            "userConsumerInfo": {},
        }

    def _queue_info(self, held: HeldQueue) -> dict[str, Any]:
        least, most = held.bounds
        clock = self._member.instance.world.clock

        def wall_ms(at_s: float | None) -> int:
            return int(clock.now_ms() - (clock.monotonic() - at_s) * 1000) if at_s else 0

        return {
            "cachedMsgCount": held.count,
            "cachedMsgMaxOffset": most,
            "cachedMsgMinOffset": least,
            "cachedMsgSizeInMiB": held.bytes >> 20,
            "commitOffset": held.progress,
            "droped": held.dropped,
            "lastConsumeTimestamp": wall_ms(held.consumed_s),
            "lastLockTimestamp": wall_ms(held.locked_s),
            "lastPullTimestamp": wall_ms(held.pulled_s),
            "locked": held.locked_s is not None,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": held.unlock_tries,
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
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY" if self._directs is None else "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": "".join(f"{each};" for each in member.instance.servers.addresses),
            "PROP_THREADPOOL_CORE_SIZE": "1",
        }

    async def _consumed(self, asked: Command) -> dict[str, Any]:
        """Hand the message out before all others, and wait until it was consumed."""
        directs = self._directs
        if directs is None:
            raise ClientError(
                f"the lite pull consumer of {self._member.group} polls its messages and takes none from a broker; ask "
                "a consumer that is given its messages"
            )
        header = reply_header(ConsumeMessageDirectlyRequest, asked, "the broker")
        clock = self._member.instance.world.clock
        message = next(
            decode_messages(asked.payload, header.broker_name or "", unwrap=self._member.instance.unwrap), None
        )
        if message is None:
            raise ClientError("there is no message to consume in the request")
        begun = clock.monotonic()
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        held = HeldQueue(queue, message.queue_offset, begun)
        held.locked_s = math.inf
        direct = Direct(held, asyncio.get_running_loop().create_future())
        directs[id(held)] = direct
        try:
            held.put([message], message.queue_offset + 1)
            self._member.handing.offer(held, first=True)
            result, remark = await direct.result
        finally:
            del directs[id(held)]
            held.drop()
        return {
            "autoCommit": True,
            "consumeResult": result,
            "order": self._member.settings.orderly,
            "remark": remark,
            "spentTimeMills": int((clock.monotonic() - begun) * 1000),
        }


def _offsets_in(asked: Command) -> dict[MessageQueue, int]:
    """The body of 220: a table with queues as keys, or from C++ clients' days a list.

    Raises:
        RefusedWith: neither.
    """
    try:
        table = loads(asked.payload)["offsetTable"]
        if isinstance(table, list):
            return {MessageQueue.from_json(each): int(each["offset"]) for each in table}
        return {MessageQueue.from_json(queue): int(at) for queue, at in dict(table).items()}
    except GantryError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise RefusedWith(1, f"offsets were expected as an offsetTable, got {asked.payload[:200]!r}") from error
