"""Sends, recalls, and the end of transactions.

Source: apache/rocketmq proxy/.../grpc/v2/producer/SendMessageActivity.java, RecallMessageActivity.java,
transaction/EndTransactionActivity.java.
"""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Final

from gantrymq.errors import GantryError, IllegalOperation, RequestRefused
from gantrymq.plugin.interfaces import (
    Broker,
    EndTransaction,
    PutStatus,
    RecallRequest,
    SendAnswer,
    SendRequest,
)
from gantrymq.plugin.model import TopicConfig
from gantrymq_grpc.conversion.codes import Refused, ok, overall, status_of
from gantrymq_grpc.conversion.messages import Sender, is_compressed, send_requests
from gantrymq_grpc.conversion.names import topic_of
from gantrymq_grpc.conversion.queues import queue_of_group
from gantrymq_grpc.conversion.transactions import HalfMessage, half_message, transaction_id
from gantrymq_grpc.conversion.validation import Limits, check_messages, check_type, type_of
from gantrymq_grpc.definitions import (
    Code,
    EndTransactionRequest,
    EndTransactionResponse,
    Message,
    MessageType,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    TransactionResolution,
    TransactionSource,
)
from gantrymq_grpc.service.access import channel_of
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.lite import Lite

_DECISIONS: Final = {TransactionResolution.COMMIT: 8, TransactionResolution.ROLLBACK: 12}
_UNDECIDED: Final = 0
_RECALL_HANDLE: Final = "recallHandle"


class SendRequests:
    """Handlers of these requests."""

    def __init__(self, broker: Broker, lite: Lite, limits: Callable[[], Limits]) -> None:
        """*limits* returns those in force now."""
        self._broker = broker
        self._lite = lite
        self._limits = limits

    async def send(self, request: SendMessageRequest, caller: Caller) -> SendMessageResponse:
        """Store messages, one after the other; each has an entry in the answer."""
        messages, now_ms = request.messages, self._broker.world.clock.now_ms()
        topic = check_messages(messages, self._limits(), now_ms)
        config = self._topic(topic)
        types = [type_of(message) for message in messages]
        for each in set(types):
            check_type(topic, config.attributes, each)
        if MessageType.LITE in types:
            self._lite.check_installed()
        sender = Sender(caller.call.peer, channel_of(caller.call).peer_packed_host, caller.principal)
        if is_compressed(messages):
            sends = await self._broker.world.workers.run(send_requests, messages, topic, sender, now_ms)
        else:
            sends = send_requests(messages, topic, sender, now_ms)
        entries = [
            await self._sent(message, kind, config, send)
            for message, kind, send in zip(messages, types, sends, strict=True)
        ]
        status = entries[0].status if len(entries) == 1 else overall((each.status for each in entries), without_any="")
        return SendMessageResponse(status=status, entries=entries)

    async def _sent(
        self, message: Message, kind: MessageType, topic: TopicConfig, request: SendRequest
    ) -> SendResultEntry:
        group = message.system_properties.message_group
        if group and topic.write_queues:
            request = request._replace(queue_id=queue_of_group(group, topic.write_queues))
        try:
            answer = await self._broker.messages.send(request)
        except GantryError as error:
            return SendResultEntry(status=status_of(error), message_id=message.system_properties.message_id)
        return _entry(message, kind, answer)

    def _topic(self, name: str) -> TopicConfig:
        found = self._broker.topics.get(name)
        if found is None:
            raise Refused(Code.TOPIC_NOT_FOUND, unknown_topic(name))
        return found

    async def recall(self, request: RecallMessageRequest, caller: Caller) -> RecallMessageResponse:
        """Recall a delayed message that is not due yet."""
        topic = topic_of(request.topic)
        check_type(topic, self._topic(topic).attributes, MessageType.DELAY)
        born_host = channel_of(caller.call).peer_packed_host
        try:
            answer = await self._broker.messages.recall(
                RecallRequest(topic, request.recall_handle, topic, born_host, caller.principal)
            )
        except IllegalOperation as error:
            raise Refused(Code.BAD_REQUEST, str(error)) from None
        status = ok() if answer.unconfirmed is None else status_of(answer.unconfirmed)
        return RecallMessageResponse(status=status, message_id=answer.message_id)

    async def end_transaction(self, request: EndTransactionRequest, caller: Caller) -> EndTransactionResponse:
        """Commit or roll back a transaction."""
        topic = topic_of(request.topic)
        half = half_message(request.transaction_id)
        known = request.resolution in TransactionResolution._value2member_map_
        resolution = TransactionResolution(request.resolution if known else 0)
        await self._broker.messages.end_transaction(
            EndTransaction(
                topic,
                half.queue_offset,
                half.log_offset,
                _DECISIONS.get(resolution, _UNDECIDED),
                request.source == TransactionSource.SOURCE_SERVER_CHECK,
                request.message_id,
                request.message_id,
                caller.principal,
            )
        )
        return EndTransactionResponse(status=ok())


def unknown_topic(name: str) -> str:
    """Return the sentence about a topic that does not exist."""
    return (
        f"topic {name} does not exist; create it with: gantrymq topic create -t {quote(name)} (gRPC clients "
        "create none, whatever autoCreateTopicEnable says)"
    )


def _entry(message: Message, kind: MessageType, answer: SendAnswer) -> SendResultEntry:
    """Return the entry of a message that is stored, or refused by the store."""
    result = answer.results[0]
    message_id = message.system_properties.message_id
    if result.status is not PutStatus.OK:
        return SendResultEntry(status=status_of(RequestRefused(1, result.problem)), message_id=message_id)
    is_half = kind is MessageType.TRANSACTION
    entry = SendResultEntry(
        status=ok() if answer.unconfirmed is None else status_of(answer.unconfirmed),
        message_id=message_id,
        transaction_id=(transaction_id(HalfMessage(result.log_offset, result.queue_offset)) if is_half else message_id),
        offset=result.queue_offset,
    )
    if answer.fields is not None:
        entry.recall_handle = answer.fields.get(_RECALL_HANDLE, "")
    return entry
