"""Who is connected: members of consumer and producer groups, what a member does, and a message for one of them.

Sources: apache/rocketmq remoting/.../protocol/body/{Connection,ConsumerConnection,ProducerConnection,ProducerInfo,
ConsumerRunningInfo,ProcessQueueInfo,ConsumeStatus,ConsumeMessageDirectlyResult}.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq.client.admin.errors import parsing
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.errors import BrokerRefused
from gantrymq.loose_json import object_key
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.clients import (
    ConsumeMessageDirectlyRequest,
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetConsumerRunningInfoRequest,
    GetProducerConnectionListRequest,
)

__all__ = [
    "ConnectionCalls",
    "ConsumeStatus",
    "ConsumedDirectly",
    "GroupClient",
    "GroupClients",
    "ProcessQueueInfo",
    "RunningInfo",
]

NO_MEMBERS: Final = "no consumer for this group"  # begins the remark of a broker that sees none


@attrs.frozen
class GroupClient:
    """One connection of a group."""

    client_id: str
    address: str  # host:port as the broker sees it
    language: str
    version: int  # of the protocol


@attrs.frozen
class GroupClients:
    """Who of a consumer group is connected to one broker, and what the group reads."""

    clients: tuple[GroupClient, ...]  # sorted by id and address
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]  # sorted by topic


@attrs.frozen
class ProcessQueueInfo:
    """A queue that a member holds, and the messages it has pulled; queue offsets, 0 without a message."""

    committed_offset: int
    cached_min_offset: int
    cached_max_offset: int
    cached_count: int
    cached_mib: int
    locked: bool
    dropped: bool
    last_locked_ms: int  # wall time, as are the next two; 0 for never
    last_pulled_ms: int
    last_consumed_ms: int


@attrs.frozen
class ConsumeStatus:
    """How a member gets on with one topic: of the last minute, failures of the last hour."""

    pull_ms: float
    pulled_per_s: float
    consume_ms: float
    consumed_per_s: float
    failed_per_s: float
    failed_count: int


@attrs.frozen
class RunningInfo:
    """What a member of a consumer group is doing."""

    properties: Mapping[str, str]  # its settings, sorted by name
    subscriptions: tuple[Subscription, ...]  # sorted by topic
    queues: Mapping[MessageQueue, ProcessQueueInfo]  # that it holds, sorted; none of a member that pops
    figures: Mapping[str, ConsumeStatus]  # by topic
    stacks: str  # of its threads, where they were asked for and it is one of Java


@attrs.frozen
class ConsumedDirectly:
    """What a member made of a message that it was given."""

    result: str  # CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, CR_RETURN_NULL
    remark: str  # what it raised; empty otherwise
    spent_ms: int
    orderly: bool

    @property
    def succeeded(self) -> bool:
        """Whether the message counts as consumed."""
        return self.result in ("CR_SUCCESS", "CR_COMMIT")


class ConnectionCalls(AdminRequests):
    """Of `Admin`. Errors of every call, unless it says more: BrokerRefused with the broker's code, or ConnectFailed,
    ConnectionLost, CallTimeout without an answer."""

    async def members(self, address: str, group: str) -> tuple[str, ...]:
        """Client ids of a consumer group's members that one broker sees, sorted; an id once for each connection.

        Args:
            address: ip:port of a broker; members are connected to every broker of the topics they consume.
            group: its name; a group that the broker does not know has no members.
        """
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            found = await self.request_json(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, what="members")
        except BrokerRefused as problem:
            if problem.remark.startswith(NO_MEMBERS):
                return ()
            raise
        return tuple(sorted(str(client_id) for client_id in found.get("consumerIdList") or ()))

    async def consumer_connections(self, address: str, group: str) -> GroupClients | None:
        """Who of a consumer group is connected to one broker; None when nobody is."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        try:
            found = await self.request_json(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, what="connections"
            )
        except BrokerRefused as problem:
            if problem.response_code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        with parsing(f"the connections of group {group}"):
            return _clients(found, group)

    async def producer_connections(self, address: str, group: str) -> tuple[GroupClient, ...]:
        """Who of a producer group is connected to one broker, sorted by id.

        Raises:
            BrokerRefused: nobody is.
        """
        header = GetProducerConnectionListRequest(producer_group=group)
        found = await self.request_json(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header, what="connections")
        with parsing(f"the connections of group {group}"):
            return _sorted(_client(each, "clientAddr") for each in found.get("connectionSet") or ())

    async def producers(self, address: str) -> dict[str, tuple[GroupClient, ...]]:
        """Every producer group with connections to one broker, sorted by name, and who they are."""
        found = await self.request_json(address, RequestCode.GET_ALL_PRODUCER_INFO, what="producers")
        with parsing(f"the producers of {address}"):
            return {
                str(group): _sorted(_client(each, "remoteIP") for each in members or ())
                for group, members in sorted((found.get("data") or {}).items())
            }

    async def running_info(self, address: str, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Ask a member of a consumer group, through a broker, what it is doing.

        Args:
            address: ip:port of a broker that the member is connected to.
            group: its consumer group.
            client_id: its id, see `members`.
            stacks: ask for the stacks of its threads, which members of Java give.

        Raises:
            BrokerRefused: it is not connected there, does not answer, or the broker cannot ask it.
        """
        header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client_id, jstack_enable=stacks)
        found = await self.request_json(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, what="running info")
        with parsing(f"what {client_id} says of itself"):
            return _running(found, group)

    async def consume_directly(self, address: str, group: str, client_id: str, offset_id: str) -> ConsumedDirectly:
        """Have one member consume a message now, whatever the group has committed; nothing is committed by it.

        Args:
            address: ip:port of a broker that has the message and that the member is connected to.
            group: its consumer group.
            client_id: its id, see `members`.
            offset_id: of the message.

        Raises:
            BrokerRefused: there is no such message or member, or the member does not answer.
        """
        header = ConsumeMessageDirectlyRequest(consumer_group=group, client_id=client_id, msg_id=offset_id)
        found = await self.request_json(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, what="results")
        with parsing(f"what {client_id} says of the message"):
            return ConsumedDirectly(
                str(found["consumeResult"]),
                str(found.get("remark") or ""),
                int(found.get("spentTimeMills") or 0),
                bool(found.get("order")),
            )


def _sorted(clients: Any) -> tuple[GroupClient, ...]:
    return tuple(sorted(clients, key=lambda client: (client.client_id, client.address)))


def _client(members: dict[Any, Any], address: str) -> GroupClient:
    return GroupClient(
        str(members.get("clientId") or ""),
        str(members.get(address) or "").removeprefix("/"),  # Java prints some with a slash
        str(members.get("language") or ""),
        int(members.get("version") or 0),
    )


def _clients(members: dict[Any, Any], group: str) -> GroupClients:
    wanted = [Subscription.from_json(each, group) for each in (members.get("subscriptionTable") or {}).values()]
    return GroupClients(
        _sorted(_client(each, "clientAddr") for each in members.get("connectionSet") or ()),
        str(members.get("consumeType") or ""),
        str(members.get("messageModel") or ""),
        str(members.get("consumeFromWhere") or ""),
        tuple(sorted(wanted, key=lambda each: each.topic)),
    )


def _running(members: dict[Any, Any], group: str) -> RunningInfo:
    queues = {MessageQueue.from_json(object_key(key)): _held(each) for key, each in _table(members, "mqTable")}
    wanted = [Subscription.from_json(each, group) for each in members.get("subscriptionSet") or ()]
    return RunningInfo(
        {str(name): str(value) for name, value in sorted(_table(members, "properties"))},
        tuple(sorted(wanted, key=lambda each: each.topic)),
        dict(sorted(queues.items())),
        {str(topic): _figures(each) for topic, each in sorted(_table(members, "statusTable"))},
        str(members.get("jstack") or ""),
    )


def _table(members: dict[Any, Any], name: str) -> list[tuple[Any, Any]]:
    return list((members.get(name) or {}).items())


def _held(members: dict[str, Any]) -> ProcessQueueInfo:
    def whole(name: str) -> int:
        return int(members.get(name) or 0)

    return ProcessQueueInfo(
        whole("commitOffset"),
        whole("cachedMsgMinOffset"),
        whole("cachedMsgMaxOffset"),
        whole("cachedMsgCount"),
        whole("cachedMsgSizeInMiB"),
        bool(members.get("locked")),
        bool(members.get("droped")),  # their spelling
        whole("lastLockTimestamp"),
        whole("lastPullTimestamp"),
        whole("lastConsumeTimestamp"),
    )


def _figures(members: dict[str, Any]) -> ConsumeStatus:
    def number(name: str) -> float:
        return float(members.get(name) or 0)

    return ConsumeStatus(
        number("pullRT"),
        number("pullTPS"),
        number("consumeRT"),
        number("consumeOKTPS"),
        number("consumeFailedTPS"),
        int(number("consumeFailedMsgs")),
    )
