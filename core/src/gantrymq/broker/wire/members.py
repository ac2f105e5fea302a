"""Questions that the members of a consumer group answer: 307 (what they do), 309 (consume this now), 223 (offsets).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (callConsumer, consumeMessageDirectly),
broker/.../client/net/Broker2Client.java (getConsumeStatus).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from gantrymq import loose_json
from gantrymq.broker.parts import Parts
from gantrymq.broker.tables.clients import Member
from gantrymq.broker.wire.answers import with_json
from gantrymq.errors import CallTimeout, ConnectionLost, FormatError, InvalidParameter, RefusedWith
from gantrymq.interfaces import Connection
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request, response_to
from gantrymq.remoting.headers.clients import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
)
from gantrymq.remoting.serving import serves

log = logging.getLogger(__name__)

ANSWER_S = 10.0
STATUS_S = 5.0
CONSUME_MSG_TIMEOUT = 207


class MemberRequests:
    """Passes questions on."""

    def __init__(self, parts: Parts) -> None:
        self._identity = parts.identity
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients

    @serves(RequestCode.GET_CONSUMER_RUNNING_INFO)
    async def running_info(self, asked: Command, connection: Connection) -> Command:
        """307: what one member is doing, in its own words."""
        header = GetConsumerRunningInfoRequest.from_ext(asked.ext)
        return await self._pass_on(asked, header.consumer_group, header.client_id, asked.ext or {}, asked.body)

    @serves(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    async def consume(self, asked: Command, connection: Connection) -> Command:
        """309: one member consumes a stored message now, and says how that went."""
        header = ConsumeMessageDirectlyRequest.from_ext(asked.ext)
        ext = {**(asked.ext or {}), "brokerName": self._identity.broker_name}
        topic = self._topics.get(header.topic) if header.topic else None
        if topic is not None:
            ext["topicSysFlag"] = str(topic.sys_flag)
        group = self._groups.known(header.consumer_group)
        if group is not None:
            ext["groupSysFlag"] = str(group.sys_flag)
        body: bytes | memoryview | None = asked.body
        if header.msg_id:
            try:
                _, _, log_offset = parse_offset_id(header.msg_id)
            except ValueError as error:
                raise InvalidParameter(f"msgId: {error}") from error
            record = self._store.read(log_offset)
            if record is None:
                raise RefusedWith(1, f"no message lies at {header.msg_id} (log offset {log_offset}) on this broker")
            body = bytes(record.raw)
        return await self._pass_on(asked, header.consumer_group, header.client_id or "", ext, body)

    @serves(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
    async def status(self, asked: Command, connection: Connection) -> Command:
        """223: the offsets that members have in memory, or the one that clientAddr names; the silent are left out."""
        header = GetConsumerStatusRequest.from_ext(asked.ext, asked.code)
        online = self._clients.consumer_group(header.group)
        if online is None or not online.members:
            raise RefusedWith(1, f"No Any Consumer online in the consumer group: [{header.group}]")
        members = [each for each in online.members.values() if header.client_addr in (None, "", each.client_id)]
        ext = {"topic": header.topic, "group": header.group}
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        answers = await asyncio.gather(
            *(self._answer(header.group, each, request(code, ext), STATUS_S) for each in members),
            return_exceptions=True,
        )
        table: dict[str, Any] = {}
        for member, answer in zip(members, answers, strict=True):
            if isinstance(answer, RefusedWith):
                log.warning("offsets of group %s on %s: %s", header.group, header.topic, answer)
            elif isinstance(answer, BaseException):
                raise answer
            elif answer.code == 0 and answer.payload:
                table[member.client_id] = _offsets(answer, member)
        return with_json(asked, {"consumerTable": table, "messageQueueTable": {}})

    async def _pass_on(
        self, asked: Command, group: str, client_id: str, ext: dict[str, str], body: bytes | memoryview | None
    ) -> Command:
        online = self._clients.consumer_group(group)
        members = online.members.values() if online is not None else ()
        member = next((each for each in members if each.client_id == client_id), None)
        if member is None:
            raise RefusedWith(1, f"The Consumer <{group}> <{client_id}> not online")
        answer = await self._answer(group, member, request(asked.code, ext, body), ANSWER_S)
        return response_to(asked, answer.code, answer.remark, answer.ext, answer.body)

    async def _answer(self, group: str, member: Member, question: Command, timeout_s: float) -> Command:
        try:
            return await member.connection.call(question, timeout_s)
        except CallTimeout as error:
            raise RefusedWith(
                CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{member.client_id}> Timeout: {error}"
            ) from error
        except ConnectionLost as error:
            raise RefusedWith(1, f"consumer <{group}> <{member.client_id}> left: {error}") from error


def _offsets(answer: Command, member: Member) -> Any:
    try:
        body = loose_json.loads(answer.payload)
    except FormatError as error:
        raise RefusedWith(1, f"{member.client_id} answered what is not JSON: {error}") from error
    return body.get("messageQueueTable") or {} if isinstance(body, dict) else {}
