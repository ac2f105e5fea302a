"""Requests of a pop consumer. Not supported by brokers below 5.0, nor by GantryMQ brokers without gantrymq-pop.

    200050  pop                         to the master; the broker suspends it for the poll time without messages
    200051  acknowledge one message
    200151  acknowledge several         messages of one broker; one by one if the broker does not support it
    200053  change an invisible time

Source: apache/rocketmq client/.../impl/MQClientAPIImpl.java (popMessageAsync, ackMessageAsync, batchAckMessageAsync,
changeInvisibleTimeAsync), remoting/.../protocol/body/BatchAck.java.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from gantrymq.client.calls.decoding import decode_messages, parse_tags
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, refused, reply_header
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.receipts import ReceiptHandles
from gantrymq.client.reading.group_pulls import FilterChecks
from gantrymq.errors import ClientError
from gantrymq.loose_json import dumps
from gantrymq.model.properties import POP_CK
from gantrymq.model.receipt import Receipt
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting import command
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header, Int32, Int64, header_of

_POP_TIMEOUT_S: Final = 10.0  # in addition to the poll time
_ALL_QUEUES: Final = "-1"  # queueId of a pop of any queue
_NOT_FOUND: Final = 19  # response codes of a pop without messages
_POLLING_FULL: Final = 209
_POLLING_TIMEOUT: Final = 210
_FIRST_POP_TIME: Final = "1ST_POP_TIME"


@header_of(RequestCode.POP_MESSAGE)
class PopMessageResponse(Header):
    """Header of a pop response."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@header_of(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeInvisibleTimeResponse(Header):
    """Fields of the new receipt."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


@attrs.frozen
class PopParameters:
    """Parameters of a pop request."""

    max_count: int
    invisible_ms: int
    poll_ms: int  # how long the broker may suspend the pop
    from_first: bool  # a new group starts at the first message of each queue
    orderly: bool = False
    check_crcs: bool = False  # as in `decoding.decode_messages`
    attempt_id: str | None = None  # of an ordered pop that is repeated


@attrs.frozen
class PopResult:
    """Result of one pop."""

    messages: tuple[ReceivedMessage, ...]
    unwanted: tuple[ReceivedMessage, ...] = ()  # other tags with the same hash code; to be acknowledged
    full: bool = False  # the broker has reached its limit of waiting pops


class PopCalls:
    """Requests of one group for one topic.

    Every method raises `NoRoute` if a broker has no master, `BrokerRefused` with the response code, and ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    def __init__(self, instance: ClientInstance, group: str, subscription: Subscription) -> None:
        """Send requests over the connections of *instance*."""
        self._instance = instance
        self._group = group
        self._subscription = subscription
        self._tags = parse_tags(subscription.expression) if subscription.type == TAG else frozenset[str]()
        self._filters = FilterChecks(instance, group)
        self._no_batch_ack = set[str]()  # addresses of brokers that do not support 200151

    async def pop(self, broker_name: str, parameters: PopParameters) -> PopResult:
        """Pop messages of any queue of the topic at one broker; each has its receipt as POP_CK."""
        address = await self._master(broker_name)
        await self._filters.check(address, self._subscription)
        ext = {
            "consumerGroup": self._group,
            "topic": self._subscription.topic,
            "queueId": _ALL_QUEUES,
            "maxMsgNums": str(parameters.max_count),
            "invisibleTime": str(parameters.invisible_ms),
            "pollTime": str(parameters.poll_ms),
            "bornTime": str(self._instance.world.clock.now_ms()),
            "initMode": "0" if parameters.from_first else "1",
            "expType": self._subscription.type,
            "exp": self._subscription.expression,
            "order": "true" if parameters.orderly else "false",
            "bname": broker_name,
        }
        if parameters.attempt_id is not None:
            ext["attemptId"] = parameters.attempt_id
        request = command.request(RequestCode.POP_MESSAGE, ext)
        reply = await self._instance.rpc.send(address, request, parameters.poll_ms / 1000 + _POP_TIMEOUT_S)
        if reply.code in (_NOT_FOUND, _POLLING_TIMEOUT, _POLLING_FULL):
            return PopResult((), full=reply.code == _POLLING_FULL)
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise ClientError(
                f"broker {broker_name} ({address}) does not support pop: RocketMQ does from 5.0 on, and GantryMQ with "
                "the plugin gantrymq-pop; consume with client.consumer() or client.lite_pull() instead"
            )
        if reply.code != ResponseCode.SUCCESS:
            raise refused(reply, address, RequestCode.POP_MESSAGE)
        return self._read_reply(reply, address, broker_name, parameters)

    def _read_reply(self, reply: Command, address: str, broker_name: str, parameters: PopParameters) -> PopResult:
        header = reply_header(PopMessageResponse, reply, address)
        read = decode_messages(reply.payload, broker_name, check_crcs=parameters.check_crcs)
        messages = [each for each in read if each.queue_id >= 0]
        new = [each for each in messages if POP_CK not in each.properties]
        handles = ReceiptHandles(
            header.start_offset_info, header.msg_offset_info, header.order_count_info, address, new
        )
        for message in messages:
            properties = message.properties
            if POP_CK not in properties:
                receipt = handles.receipt(
                    message, broker_name, header.pop_time, header.invisible_time, header.revive_qid
                )
                properties[POP_CK] = str(receipt)
                if parameters.orderly:
                    message.reconsume_times = handles.delivery_count(message) or message.reconsume_times
            properties.setdefault(_FIRST_POP_TIME, str(header.pop_time))
            message.topic = self._subscription.topic
        if not self._tags:
            return PopResult(tuple(messages))
        return PopResult(
            tuple(each for each in messages if each.tags in self._tags),
            tuple(each for each in messages if each.tags not in self._tags),
        )

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        """Acknowledge messages."""
        of_broker: defaultdict[str, list[Receipt]] = defaultdict(list)
        for receipt in receipts:
            of_broker[receipt.broker_name].append(receipt)
        for broker_name, broker_receipts in of_broker.items():
            await self._ack_at(broker_name, broker_receipts)

    async def _ack_at(self, broker_name: str, receipts: Sequence[Receipt]) -> None:
        address = await self._master(broker_name)
        if len(receipts) > 1 and address not in self._no_batch_ack:
            body = dumps({"acks": self._batch(receipts), "brokerName": broker_name})
            reply = await self._instance.rpc.exchange(address, RequestCode.BATCH_ACK_MESSAGE, None, body)
            if reply.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                _check(reply, address)
                return
            self._no_batch_ack.add(address)
        for receipt in receipts:
            request = command.request(RequestCode.ACK_MESSAGE, self._receipt_fields(receipt))
            _check(await self._instance.rpc.send(address, request, CALL_TIMEOUT_S), address)

    def _batch(self, receipts: Iterable[Receipt]) -> list[dict[str, Any]]:
        """Return one entry for each pop and queue, with its messages as bits counted from startOffset."""
        of_pop: defaultdict[Receipt, set[int]] = defaultdict(set)
        for receipt in receipts:
            of_pop[receipt._replace(queue_offset=receipt.start_offset)].add(receipt.queue_offset - receipt.start_offset)
        return [
            {
                "b": _bits(indexes),
                "c": self._group,
                "it": pop.invisible_ms,
                "pt": pop.pop_ms,
                "q": pop.queue_id,
                "r": pop.kind,
                "rq": pop.revive_queue,
                "so": pop.start_offset,
                "t": self._subscription.topic,
            }
            for pop, indexes in of_pop.items()
        ]

    async def change(self, receipt: Receipt, invisible_ms: int) -> Receipt:
        """Set the invisible time of a message, counted from now. Return its new receipt."""
        address = await self._master(receipt.broker_name)
        ext = {**self._receipt_fields(receipt), "invisibleTime": str(invisible_ms)}
        request = command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext)
        reply = await self._instance.rpc.send(address, request, CALL_TIMEOUT_S)
        _check(reply, address)
        header = reply_header(ChangeInvisibleTimeResponse, reply, address)
        return receipt.changed(header.pop_time, header.invisible_time, header.revive_qid)

    def _receipt_fields(self, receipt: Receipt) -> dict[str, str]:
        return {
            "consumerGroup": self._group,
            "topic": receipt.topic(
                self._instance.wrap_name(self._subscription.topic), self._instance.wrap_name(self._group)
            ),
            "queueId": str(receipt.queue_id),
            "extraInfo": str(receipt),
            "offset": str(receipt.queue_offset),
            "bname": receipt.broker_name,
        }

    async def _master(self, broker_name: str) -> str:
        return await self._instance.routes.find_broker(self._subscription.topic, broker_name)


def _check(reply: Command, address: str) -> None:
    if reply.code != ResponseCode.SUCCESS:
        raise refused(reply, address, RequestCode.ACK_MESSAGE)


def _bits(indexes: Iterable[int]) -> str:
    """Encode a BitSet as fastjson does: bit n is in byte n / 8, lowest bit first."""
    ordered = sorted(indexes)
    bits = bytearray((ordered[-1] >> 3) + 1)
    for index in ordered:
        bits[index >> 3] |= 1 << (index & 7)
    return base64.b64encode(bits).decode()
