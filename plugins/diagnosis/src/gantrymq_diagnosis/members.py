"""Requests forwarded to the members of a consumer group: 307 (state), 309 (consume a message now), 223 (offsets).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (callConsumer, consumeMessageDirectly),
broker/.../client/net/Broker2Client.java (getConsumeStatus).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from gantrymq.errors import (
    CallTimeout,
    ConnectionLost,
    FormatError,
    InvalidParameter,
    RequestRefused,
)
from gantrymq.plugin.headers import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
)
from gantrymq.plugin.interfaces import OnlineClient
from gantrymq.plugin.loose_json import Entries, loads
from gantrymq.plugin.model import Action, ClientAnswer, DirectConsumption, parse_offset_id
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq_diagnosis.operators.requests import BrokerRequests, stopping

log = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
_STATUS_S: Final = 5.0
_CONSUME_MSG_TIMEOUT: Final = 207


class MemberQuestions(BrokerRequests):
    """Handlers that forward requests to members."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[asyncio.Task[ClientAnswer]] = set()

    def stop(self) -> None:
        """Refuse requests, and stop waiting for members: pending requests are answered with code 14."""
        super().stop()
        for call in self._waiting:
            call.cancel()

    @serves(RequestCode.GET_CONSUMER_RUNNING_INFO, action=Action.GET, group="consumerGroup")
    async def running_info(self, asked: Command, connection: Connection) -> Command:
        """307: return the state of one member as it reports it."""
        header = GetConsumerRunningInfoRequest.from_ext(asked.ext)
        group = header.consumer_group
        member = self._member(group, header.client_id)
        answer = member.connection.running_info(group, member.client_id, asked.ext or {}, ANSWER_S)
        return _passed_on(asked, await self._answer(group, member, answer))

    @serves(RequestCode.CONSUME_MESSAGE_DIRECTLY, action=Action.SUB, topic="topic", group="consumerGroup")
    async def consume(self, asked: Command, connection: Connection) -> Command:
        """309: let one member consume a stored message now, and return its result."""
        broker = self._broker
        header = ConsumeMessageDirectlyRequest.from_ext(asked.ext)
        topic = broker.topics.get(header.topic) if header.topic else None
        config = broker.groups.get(header.consumer_group)
        body: bytes | memoryview | None = asked.body
        if header.msg_id:
            try:
                _, _, log_offset = parse_offset_id(header.msg_id)
            except ValueError as error:
                raise InvalidParameter(f"msgId: {error}") from error
            record = broker.messages.read(log_offset)
            if record is None:
                raise RequestRefused(
                    1, f"there is no message at {header.msg_id} (log offset {log_offset}) on this broker"
                )
            broker.access.check_consumer(connection.principal, header.consumer_group, record.topic)
            body = bytes(record.raw)
        group = header.consumer_group
        member = self._member(group, header.client_id or "")
        message = DirectConsumption(
            group,
            member.client_id,
            body,
            broker.registration.broker_name,
            None if topic is None else topic.sys_flag,
            None if config is None else config.sys_flag,
        )
        answer = member.connection.consume_directly(message, asked.ext or {}, ANSWER_S)
        return _passed_on(asked, await self._answer(group, member, answer))

    @serves(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, action=Action.GET, topic="topic", group="group")
    async def status(self, asked: Command, connection: Connection) -> Command:
        """223: return the offsets in memory of members, or of the one at clientAddr, without silent ones."""
        header = GetConsumerStatusRequest.from_ext(asked.ext, asked.code)
        online = self._broker.clients.consumers(header.group)
        if not online:
            raise RequestRefused(1, f"No Any Consumer online in the consumer group: [{header.group}]")
        members = [each for each in online if header.client_addr in (None, "", each.client_id)]
        questions = [each.connection.consumer_offsets(header.topic, header.group, _STATUS_S) for each in members]
        answers = await asyncio.gather(
            *(self._answer(header.group, *each) for each in zip(members, questions, strict=True)),
            return_exceptions=True,
        )
        broker, table = self._broker, dict[str, Any]()
        for member, answer in zip(members, answers, strict=True):
            if isinstance(answer, RequestRefused):
                log.warning("offsets of group %s on %s: %s", header.group, header.topic, answer)
            elif isinstance(answer, BaseException):
                raise answer
            elif answer.code == 0 and answer.body:
                table[member.client_id] = await broker.world.workers.run(_offsets, answer, member)
        of_members = Entries((client_id, Entries(table[client_id].items())) for client_id in sorted(table))
        body = {"consumerTable": of_members, "messageQueueTable": {}}
        return await self._long.make(asked, connection, body)

    def _member(self, group: str, client_id: str) -> OnlineClient:
        member = next((each for each in self._broker.clients.consumers(group) if each.client_id == client_id), None)
        if member is None:
            raise RequestRefused(1, f"The Consumer <{group}> <{client_id}> not online")
        return member

    async def _answer(
        self, group: str, member: OnlineClient, question: Coroutine[Any, Any, ClientAnswer]
    ) -> ClientAnswer:
        call = asyncio.ensure_future(question)
        self._waiting.add(call)
        try:
            return await call
        except CallTimeout as error:
            raise RequestRefused(
                _CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{member.client_id}> Timeout: {error}"
            ) from error
        except ConnectionLost as error:
            raise RequestRefused(1, f"consumer <{group}> <{member.client_id}> left: {error}") from error
        except asyncio.CancelledError:
            if self._running is not None:
                raise
            raise stopping() from None
        finally:
            self._waiting.discard(call)


def _passed_on(asked: Command, answer: ClientAnswer) -> Command:
    fields = None if answer.fields is None else dict(answer.fields)
    return response_to(asked, answer.code, answer.remark, fields, answer.body)


def _offsets(answer: ClientAnswer, member: OnlineClient) -> dict[Any, Any]:
    """Return the offsets in a member's answer. Runs in a thread: there may be thousands of queues."""
    try:
        body = loads(answer.body or b"")
    except FormatError as error:
        raise RequestRefused(1, f"{member.client_id} answered what is not JSON: {error}") from error
    table = body.get("messageQueueTable") if isinstance(body, dict) else None
    return table if isinstance(table, dict) else {}
