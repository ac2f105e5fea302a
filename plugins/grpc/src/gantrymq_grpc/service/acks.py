"""Acknowledgements, changes of the invisible time, and dead letters: requests that name a message by its handle.

SDKs repeat each of these without end, except after INVALID_RECEIPT_HANDLE. So a handle that cannot be read, is of
another broker, of a queue or group that there is not, or whose message comes again, is answered with that code, and a
repeated request with success. A handle does not name the group that received it: one of another group looks repeated.

Source: apache/rocketmq proxy/.../grpc/v2/consumer/AckMessageActivity.java, ChangeInvisibleDurationActivity.java,
producer/ForwardMessageToDLQActivity.java.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from gantrymq.errors import GantryError, LiteTopicIllegal, ReceiptIllegal
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Receipt, read_receipt
from gantrymq_grpc.conversion.codes import Refused, ok, overall, status_of
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.conversion.times import duration_ms
from gantrymq_grpc.definitions import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    Code,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    Status,
)
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.deliveries import Deliveries, Delivery
from gantrymq_grpc.service.others import OtherBrokers

MOST_INVISIBLE_MS: Final = 12 * 3600 * 1000
MOST_ENTRIES: Final = 1024  # of one request; SDKs send one
_AT_ONCE: Final = 32  # entries that are stored together
_EXPIRED: Final = "receipt handle is expired"


_WithHandle = AckMessageEntry | ChangeInvisibleDurationRequest | ForwardMessageToDeadLetterQueueRequest


class _Named(NamedTuple):
    """A message that a request names."""

    delivery: Delivery[Any]
    receipt: Receipt
    is_delivered: bool  # it is neither acknowledged nor visible again


class HandleRequests:
    """Handlers of these requests."""

    def __init__(self, broker: Broker, deliveries: Deliveries, others: OtherBrokers) -> None:
        self._broker = broker
        self._deliveries = deliveries
        self._others = others

    async def ack(self, request: AckMessageRequest, caller: Caller) -> AckMessageResponse:
        """Acknowledge messages; each entry has its own status."""
        topic, group = topic_of(request.topic), group_of(request.group)
        entries = request.entries
        if len(entries) > MOST_ENTRIES:
            text = f"the request acknowledges {len(entries)} messages, at most {MOST_ENTRIES} are taken; send several"
            raise Refused(Code.BAD_REQUEST, text)
        results: list[AckMessageResultEntry] = []
        for start in range(0, len(entries), _AT_ONCE):
            part = [self._acked(each, topic, group, caller) for each in entries[start : start + _AT_ONCE]]
            results += await asyncio.gather(*part) if len(part) > 1 else [await part[0]]
        status = overall((each.status for each in results), without_any="the request acknowledges no message")
        return AckMessageResponse(status=status, entries=results)

    async def _acked(self, entry: AckMessageEntry, topic: str, group: str, caller: Caller) -> AckMessageResultEntry:
        try:
            named = self._named(entry, topic, group, caller)
            if named.is_delivered:
                await named.delivery.ack()
            status = ok()
        except GantryError as error:
            status = status_of(error)
        return AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)

    async def change(self, request: ChangeInvisibleDurationRequest, caller: Caller) -> ChangeInvisibleDurationResponse:
        """Change the invisible time of a message, which gets a new handle."""
        topic, group = topic_of(request.topic), group_of(request.group)
        invisible_ms = duration_ms(request.invisible_duration, "invisible_duration", Code.ILLEGAL_INVISIBLE_TIME)
        check_longest(invisible_ms)
        named = self._named(request, topic, group, caller)
        changed = await named.delivery.change_invisible_time(invisible_ms)
        return ChangeInvisibleDurationResponse(status=ok(), receipt_handle=str(named.receipt.changed(*changed)))

    async def forward_to_dead_letters(
        self, request: ForwardMessageToDeadLetterQueueRequest, caller: Caller
    ) -> ForwardMessageToDeadLetterQueueResponse:
        """Move a message to the dead letters of its group."""
        topic, group = topic_of(request.topic), group_of(request.group)
        named = self._named(request, topic, group, caller)
        if named.receipt.log_offset is None:
            raise _dead(f"the receipt handle {request.receipt_handle[:80]!r} has no log offset")
        if named.is_delivered:
            await named.delivery.forward_to_dead_letters(named.receipt.log_offset)
        return ForwardMessageToDeadLetterQueueResponse(status=Status(code=Code.OK, message="0"))

    def _named(self, request: _WithHandle, topic: str, group: str, caller: Caller) -> _Named:
        """Return the message of a handle. Raises Refused if there is none, or it comes again.

        A message of a lite topic is found by the record that the handle names if the request does not name the lite
        topic. RocketMQ's proxy answers OK then and acknowledges nothing, so that the lite topic waits.
        """
        try:
            receipt = read_receipt(request.receipt_handle)
        except ReceiptIllegal as error:
            raise _dead(str(error)) from None
        self._others.check(receipt.broker_name, caller.call.listener)
        delivery = self._deliveries.of(group, topic, receipt, caller.principal, request.lite_topic)
        stored = receipt.topic(topic, group)
        try:
            delivered = delivery.is_delivered()
        except LiteTopicIllegal as error:
            raise _dead(str(error)) from None
        if not delivered:
            if receipt.is_expired(self._broker.world.clock.now_ms()):
                raise _dead(_EXPIRED)
            self._broker.access.check_consumer(caller.principal, group, stored)
        self._check_place(stored, receipt.queue_id, group)
        return _Named(delivery, receipt, delivered)

    def _check_place(self, name: str, queue_id: int, group: str) -> None:
        """Check that the broker has the queue and the group of a message. Raises Refused."""
        topic = self._broker.topics.get(name)
        if topic is None or not 0 <= queue_id < topic.read_queues:
            raise _dead(
                f"this broker has no queue {queue_id} of topic {name}, so no message of it has this receipt "
                "handle; name the topic of the message"
            )
        if self._broker.groups.get(group) is None:
            raise _dead(
                f"this broker does not know consumer group {group}, which so has received nothing; name the group "
                "that received the message"
            )


def check_longest(invisible_ms: int) -> None:
    """Check the upper bound of an invisible time. Raises Refused."""
    if invisible_ms > MOST_INVISIBLE_MS:
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {MOST_INVISIBLE_MS}")


def _dead(text: str) -> Refused:
    return Refused(Code.INVALID_RECEIPT_HANDLE, text)
