"""Connected clients: members of consumer and producer groups, running info, and direct consumption by one member.

Sources: apache/rocketmq remoting/.../protocol/body/{Connection,ConsumerConnection,ProducerConnection,ProducerInfo,
ConsumerRunningInfo,ProcessQueueInfo,ConsumeStatus,ConsumeMessageDirectlyResult}.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from gantrymq.client.admin.errors import parsing
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.errors import BrokerRefused
from gantrymq.loose_json import object_key
from gantrymq.model.group import POPS, pops
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

_NO_MEMBERS: Final = "no consumer for this group"  # start of a broker's remark if no member is connected


@attrs.frozen
class GroupClient:
    """One connection of a group."""

    client_id: str
    address: str  # host:port as the broker sees it
    language: str
    version: int  # of the protocol
    protocol: str = ""  # such as grpc; empty for remoting, and if the broker does not report it


@attrs.frozen
class GroupClients:
    """Clients of a consumer group that are connected to one broker, and the group's subscriptions."""

    clients: tuple[GroupClient, ...]  # sorted by id and address
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]  # sorted by topic

    @property
    def pops(self) -> bool:
        """Whether members of the group receive by pop."""
        return self.consume_type == POPS or any(pops("", each.protocol) for each in self.clients)


@attrs.frozen
class ProcessQueueInfo:
    """A queue assigned to a member, and the messages it has pulled; queue offsets, 0 without a message."""

    committed_offset: int
    cached_min_offset: int
    cached_max_offset: int
    cached_count: int
    cached_mib: int
    locked: bool
    dropped: bool
    last_locked_ms: int  # wall time, also for the next two; 0 for never
    last_pulled_ms: int
    last_consumed_ms: int


@attrs.frozen
class ConsumeStatus:
    """Consumption rates of a member for one topic, over the last minute; failures over the last hour."""

    pull_ms: float
    pulled_per_s: float
    consume_ms: float
    consumed_per_s: float
    failed_per_s: float
    failed_count: int


@attrs.frozen
class RunningInfo:
    """State of a member of a consumer group."""

    properties: Mapping[str, str]  # its settings, sorted by name
    subscriptions: tuple[Subscription, ...]  # sorted by topic
    queues: Mapping[MessageQueue, ProcessQueueInfo]  # assigned to it, sorted; empty for a member that pops
    figures: Mapping[str, ConsumeStatus]  # by topic
    stacks: str  # thread stacks, if requested and it is a Java client


@attrs.frozen
class ConsumedDirectly:
    """Result of a message that a member consumed directly."""

    result: str  # CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, CR_RETURN_NULL
    remark: str  # its exception; empty otherwise
    spent_ms: int
    orderly: bool

    @property
    def succeeded(self) -> bool:
        """Whether the message counts as consumed."""
        return self.result in ("CR_SUCCESS", "CR_COMMIT")


class ConnectionCalls(AdminRequests):
    """Part of `Admin`. Unless stated otherwise, calls raise BrokerRefused with the broker's code, or ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    async def members(self, address: str, group: str) -> tuple[str, ...]:
        """Return the client ids of a consumer group connected to one broker, sorted; one entry for each connection.

        Args:
            address: ip:port of a broker; members connect to every broker of the topics they consume.
            group: its name; a group unknown to the broker has no members.
        """
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            found = await self.request_json(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, what="members")
        except BrokerRefused as problem:
            if problem.remark.startswith(_NO_MEMBERS):
                return ()
            raise
        return tuple(sorted(str(client_id) for client_id in found.get("consumerIdList") or ()))

    async def consumer_connections(self, address: str, group: str) -> GroupClients | None:
        """Return the connections of a consumer group to one broker, or None without any."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        try:
            return await self.request_parsed(
                address,
                RequestCode.GET_CONSUMER_CONNECTION_LIST,
                partial(_clients, group=group),
                header,
                what=f"the connections of group {group}",
            )
        except BrokerRefused as problem:
            if problem.response_code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise

    async def producer_connections(self, address: str, group: str) -> tuple[GroupClient, ...]:
        """Return the connections of a producer group to one broker, sorted by id.

        Raises:
            BrokerRefused: there is none.
        """
        header = GetProducerConnectionListRequest(producer_group=group)
        code, what = RequestCode.GET_PRODUCER_CONNECTION_LIST, f"the connections of group {group}"
        return await self.request_parsed(address, code, _connections, header, what=what)

    async def producers(self, address: str) -> dict[str, tuple[GroupClient, ...]]:
        """Return every producer group connected to one broker, sorted by name, with its connections."""
        code = RequestCode.GET_ALL_PRODUCER_INFO
        return await self.request_parsed(address, code, _producers, what=f"the producers of {address}")

    async def running_info(self, address: str, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Query a member of a consumer group, through a broker, for its state.

        Args:
            address: ip:port of a broker that the member is connected to.
            group: its consumer group.
            client_id: its id, see `members`.
            stacks: include thread stacks, which Java clients return.

        Raises:
            BrokerRefused: the member is not connected there or does not answer, or the broker cannot query it.
        """
        header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client_id, jstack_enable=stacks)
        found = await self.request_json(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, what="running info")
        with parsing(f"the running info of {client_id}"):
            return _running(found, group)

    async def consume_directly(self, address: str, group: str, client_id: str, offset_id: str) -> ConsumedDirectly:
        """Have one member consume a message now, regardless of the group's offsets; commits nothing.

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
        with parsing(f"the result of {client_id}"):
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
        str(members.get("protocol") or ""),
    )


def _connections(members: dict[Any, Any]) -> tuple[GroupClient, ...]:
    return _sorted(_client(each, "clientAddr") for each in members.get("connectionSet") or ())


def _producers(members: dict[Any, Any]) -> dict[str, tuple[GroupClient, ...]]:
    return {
        str(group): _sorted(_client(each, "remoteIP") for each in listed or ())
        for group, listed in sorted((members.get("data") or {}).items())
    }


def _clients(members: dict[Any, Any], group: str) -> GroupClients:
    wanted = [Subscription.from_json(each, group) for each in (members.get("subscriptionTable") or {}).values()]
    return GroupClients(
        _connections(members),
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
        bool(members.get("droped")),  # RocketMQ's spelling
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
