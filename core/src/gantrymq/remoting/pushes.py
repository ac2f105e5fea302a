"""Requests from a broker to its clients: 40, 220, 221, 307, 309, 39, 326 and 200073.

Source: apache/rocketmq broker/.../client/net/Broker2Client.java, broker/.../processor/ReplyMessageProcessor.java
(pushReplyMessage), remoting/.../protocol/header/ReplyMessageRequestHeader.java.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.loose_json import Entries, Items, ObjectKey, dumps_in_slices
from gantrymq.model.hosts import host_text
from gantrymq.model.pushes import (
    ClientAnswer,
    DirectConsumption,
    LiteUnsubscription,
    OffsetReset,
    PushedReply,
    TransactionCheck,
)
from gantrymq.remoting.channel import Channel
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.clients import (
    ConsumeMessageDirectlyRequest,
    NotifyConsumerIdsChangedRequest,
    ResetOffsetRequest,
)
from gantrymq.remoting.responses import MAX_BODY_BYTES
from gantrymq.world import Clock
from gantrymq.world.clock import TimeSlices

_QUEUES_TOGETHER = 64  # queues of a reset to encode without yielding


class ClientPushes(Channel):
    """The broker's requests to one client; `gantrymq.interfaces.ClientChannel` documents the methods."""

    _clock: Clock

    def members_changed(self, group: str) -> None:
        """Send the one-way request 40, unless an earlier one for the group is still unwritten."""
        header = NotifyConsumerIdsChangedRequest(consumer_group=group)
        self.notice(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header.to_ext(), oneway=True), group)

    async def reset_offsets(self, reset: OffsetReset) -> None:
        """Send the one-way request 220."""
        if reset.encoded is None:
            reset.encoded = await self._reset_body(reset)
        header = ResetOffsetRequest(
            topic=reset.topic, group=reset.group, timestamp=reset.timestamp, is_force=reset.force
        )
        self.oneway(request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header.to_ext(), reset.encoded, oneway=True))

    async def _reset_body(self, reset: OffsetReset) -> bytes:
        queues = (
            ({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}, queue_offset)
            for queue, queue_offset in reset.offsets.items()
        )
        table: Items | Entries
        if reset.as_list:
            table = Items(
                {
                    "brokerName": queue["brokerName"],
                    "offset": at,
                    "queueId": queue["queueId"],
                    "topic": queue["topic"],
                }
                for queue, at in queues
            )
        else:
            table = Entries((ObjectKey(queue), at) for queue, at in queues)
        slices = TimeSlices(self._clock, _QUEUES_TOGETHER)
        return await dumps_in_slices(Entries([("offsetTable", table)]), slices.item_done, max_bytes=MAX_BODY_BYTES)

    def check_transaction(self, check: TransactionCheck) -> None:
        """Send the one-way request 39."""
        self.oneway(check_command(check))

    async def deliver_reply(self, reply: PushedReply, timeout_s: float) -> ClientAnswer:
        """Send request 326."""
        return await self._asked(reply_command(reply), timeout_s)

    async def running_info(
        self, group: str, client_id: str, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Send request 307."""
        ext = {**fields, "consumerGroup": group, "clientId": client_id}
        return await self._asked(request(RequestCode.GET_CONSUMER_RUNNING_INFO, ext), timeout_s)

    async def consume_directly(
        self, message: DirectConsumption, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Send request 309."""
        header = ConsumeMessageDirectlyRequest(
            consumer_group=message.group,
            client_id=message.client_id,
            broker_name=message.broker_name,
            topic_sys_flag=message.topic_sys_flag,
            group_sys_flag=message.group_sys_flag,
        )
        ext = {**fields, **header.to_ext()}
        return await self._asked(request(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, message.record), timeout_s)

    async def consumer_offsets(self, topic: str, group: str, timeout_s: float) -> ClientAnswer:
        """Send request 221."""
        ext = {"topic": topic, "group": group}
        return await self._asked(request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext), timeout_s)

    def lite_unsubscribed(self, news: LiteUnsubscription) -> None:
        """Send the one-way request 200073."""
        fields = {"liteTopic": news.lite_topic, "consumerGroup": news.group, "clientId": news.client_id}
        self.oneway(request(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, fields, oneway=True))

    async def _asked(self, command: Command, timeout_s: float) -> ClientAnswer:
        answer = await self.call(command, timeout_s)
        return ClientAnswer(answer.code, answer.remark, answer.ext, answer.body)


def check_command(check: TransactionCheck) -> Command:
    """Return request 39."""
    fields = {
        "topic": check.half_topic,
        "tranStateTableOffset": str(check.half_queue_offset),
        "commitLogOffset": str(check.half_log_offset),
        "msgId": check.transaction_id,
        "transactionId": check.transaction_id,
        "offsetMsgId": check.offset_id,
        "bname": check.broker_name,
    }
    return request(RequestCode.CHECK_TRANSACTION_STATE, fields, check.record, oneway=True)


def reply_command(reply: PushedReply) -> Command:
    """Return request 326: the header of a send with long names, and where and when the reply was stored."""
    fields = {
        "producerGroup": reply.group,
        "topic": reply.topic,
        "defaultTopic": reply.default_topic,
        "defaultTopicQueueNums": str(reply.default_topic_queues),
        "queueId": str(reply.queue_id),
        "sysFlag": str(reply.sys_flag),
        "bornTimestamp": str(reply.born_timestamp),
        "flag": str(reply.flag),
        "properties": reply.properties,
        "reconsumeTimes": str(reply.reconsume_times),
        "unitMode": "true" if reply.unit_mode else "false",
        "bornHost": host_text(reply.born_host),
        "storeHost": host_text(reply.store_host),
        "storeTimestamp": str(reply.store_timestamp),
    }
    return request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, reply.body)
