"""Requests for messages: pop (200050), peek (200052), notification (200054) and polling info (200055).

Requests about popped messages are in `ack_requests`.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java, PeekMessageProcessor.java,
NotificationProcessor.java, PollingInfoProcessor.java.
"""

from __future__ import annotations

from typing import Any, Final

from gantrymq.errors import GantryError, InvalidParameter
from gantrymq.plugin.interfaces import BrokerCluster, PopAnswer, PopRequest
from gantrymq.plugin.model import POP_ORDER_REVIVE_QUEUE, Action
from gantrymq.plugin.remoting import Command, Connection, RequestCode, encode_head, in_operation, response_to, serves
from gantrymq_pop.checkpoints import MOST
from gantrymq_pop.headers import NotificationRequest, PeekRequest, PollingInfoRequest, PopRequestHeader
from gantrymq_pop.long_polling import LongPolling, PollingKey
from gantrymq_pop.operations import Pops
from gantrymq_pop.pop_reader import PopReader
from gantrymq_pop.pop_response import counts_info, offsets_info, start_info

_PULL_NOT_FOUND: Final = 19


class PopRequests:
    """Handlers of these requests."""

    def __init__(self, broker: BrokerCluster, pops: Pops, popping: PopReader, waiting: LongPolling) -> None:
        self._clock = broker.world.clock
        self._access = broker.access
        self._pops = pops
        self._checks = pops.checks
        self._popping = popping
        self._waiting = waiting

    @serves(RequestCode.POP_MESSAGE, access=in_operation)
    async def pop(self, request: Command, connection: Connection) -> None:
        """Answer request 200050: pop messages, or wait for some."""
        header = PopRequestHeader.from_ext(request.ext)
        wanted = PopRequest(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.max_msg_nums,
            header.invisible_time,
            header.poll_time,
            header.born_time,
            header.init_mode,
            header.exp,
            header.exp_type,
            header.order,
            header.attempt_id,
            connection.principal,
        )

        def respond(answer: PopAnswer | GantryError) -> None:
            if isinstance(answer, GantryError):
                _reply(request, connection, response_to(request, answer.response_code, str(answer)))
            elif answer.buffers:
                _send(request, connection, response_to(request, 0, answer.remark, _ext(answer)), answer.buffers)
            else:
                _reply(request, connection, response_to(request, answer.code, answer.remark, _ext(answer)))

        await self._pops.serve(wanted, connection, respond)

    @serves(RequestCode.NOTIFICATION, action=Action.SUB, topic="topic", group="consumerGroup")
    async def notification(self, request: Command, connection: Connection) -> None:
        """Answer request 200054: respond as soon as a pop would find messages."""
        header = NotificationRequest.from_ext(request.ext)
        header.born_time = header.born_time or self._clock.now_ms()
        principal = connection.principal
        self._checks.check_broker()
        topic = self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)

        def respond(answer: dict[str, str] | GantryError) -> None:
            if isinstance(answer, GantryError):
                _reply(request, connection, response_to(request, answer.response_code, str(answer)))
            else:
                _reply(request, connection, response_to(request, 0, None, answer))

        self._pops.notified(header, topic, connection, principal, respond)

    @serves(RequestCode.POLLING_INFO, action=Action.GET, topic="topic", group="consumerGroup")
    def polling_info(self, request: Command, connection: Connection) -> Command:
        """Answer request 200055: the number of waiting pops."""
        header = PollingInfoRequest.from_ext(request.ext)
        self._checks.check_broker()
        self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        place = PollingKey(header.topic, header.consumer_group, header.queue_id)
        return response_to(request, 0, None, {"pollingNum": str(self._waiting.number(place))})

    @serves(RequestCode.PEEK_MESSAGE, action=Action.SUB, topic="topic", group="consumerGroup")
    async def peek(self, request: Command, connection: Connection) -> Command | None:
        """Answer request 200052: messages that a pop would get, without popping them."""
        header = PeekRequest.from_ext(request.ext)
        self._checks.check_broker()
        topic = self._checks.checked_topic(header.topic, header.queue_id)
        self._checks.check_group(header.consumer_group)
        if not 1 <= header.max_msg_nums <= MOST:
            raise InvalidParameter(f"maxMsgNums {header.max_msg_nums} is not between 1 and {MOST}; pop more often")
        buffers, rest = await self._popping.peek(header.consumer_group, topic, header.queue_id, header.max_msg_nums)
        ext = {
            "popTime": str(self._clock.now_ms()),
            "invisibleTime": "0",
            "reviveQid": "0",
            "restNum": str(rest),
        }
        if not buffers:
            return response_to(request, _PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", ext)
        _send(request, connection, response_to(request, 0, "FOUND", ext), buffers)
        return None


def _ext(answer: PopAnswer) -> dict[str, str]:
    ext = {
        "popTime": str(answer.pop_ms),
        "invisibleTime": str(answer.invisible_ms),
        "reviveQid": str(answer.revive_queue),
        "restNum": str(answer.rest),
        "startOffsetInfo": ";".join(map(start_info, answer.batches)),
        "msgOffsetInfo": ";".join(map(offsets_info, answer.batches)),
    }
    if answer.revive_queue == POP_ORDER_REVIVE_QUEUE:
        ext["orderCountInfo"] = ";".join(map(counts_info, answer.batches))
    return ext


def _reply(request: Command, connection: Connection, answer: Command) -> None:
    if not request.is_oneway and not connection.closed:
        connection.reply(request, answer)


def _send(request: Command, connection: Connection, answer: Command, buffers: Any) -> None:
    """Send a response with records."""
    if connection.closed or request.is_oneway:
        return
    size = sum(map(len, buffers))
    connection.reply_parts([encode_head(answer, size), *buffers])
