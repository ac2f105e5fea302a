"""Administration: the calls that commands need.

Topics are made and deleted at the masters of a cluster; name servers learn of new ones from the brokers and are told of
deleted ones.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from typing import Any, Unpack

import attrs

from gantrymq.client.base import BaseClient
from gantrymq.client.connecting import ConnectOptions
from gantrymq.client.routes import ClusterInfo, TopicRoute, parse_clusters, parse_route
from gantrymq.client.rpc import RpcClient, refused
from gantrymq.errors import BrokerRefused, ClientError, FormatError, NoRoute
from gantrymq.loose_json import loads, object_key
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.clients import GetConsumerListByGroupRequest
from gantrymq.remoting.headers.nameserver import DeleteTopicInNamesrvRequest, GetRouteinfoByTopicRequest
from gantrymq.remoting.headers.topics import (
    CreateTopicRequest,
    DeleteTopicInBrokerRequest,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
)

__all__ = ["Admin", "QueueStats"]

ADMIN_TIMEOUT_S = 5.0
NO_MEMBERS = "no consumer for this group"  # begins the remark of a broker that sees none


@attrs.frozen
class QueueStats:
    """One queue as its broker sees it."""

    min_offset: int
    max_offset: int
    updated_ms: int  # store time of the last message, 0 without one


class Admin(BaseClient):
    """Asks name servers and brokers; used as ``async with``. Registers with no broker."""

    def __init__(
        self, namesrv: str | None = None, *, timeout_s: float = ADMIN_TIMEOUT_S, **connect: Unpack[ConnectOptions]
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            timeout_s: of every call.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: there is no option of a name given.
        """
        super().__init__(namesrv, **connect)
        self._timeout_s = timeout_s

    # --- name servers ---------------------------------------------------------------------------------------------

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Their addresses, as given."""
        return self._started().servers.addresses

    async def topics(self, server: str | None = None) -> list[str]:
        """Names of all topics, sorted.

        Args:
            server: address of the name server to ask; None for any.

        Raises:
            ConnectFailed: no name server answers.
            BrokerRefused: it does not list topics.
        """
        reply = await self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, server)
        return sorted({str(topic) for topic in _members(reply, "topic list").get("topicList") or ()})

    async def clusters(self, server: str | None = None) -> ClusterInfo:
        """Clusters and brokers. *server* and errors as for `topics`."""
        return parse_clusters((await self._ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO, None, server)).payload)

    async def route(self, topic: str) -> TopicRoute:
        """The route of one topic.

        Raises:
            NoRoute: there is none.
            as `topics`: otherwise.
        """
        header = GetRouteinfoByTopicRequest(topic=topic, accept_standard_json_only=True)
        return parse_route((await self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)).payload)

    # --- topics at brokers ----------------------------------------------------------------------------------------

    async def masters(self, cluster: str | None = None) -> tuple[str, ...]:
        """Addresses of the masters of *cluster*, or of the only cluster there is.

        Raises:
            ClientError: no such cluster, several without one named, or no master in it.
        """
        info = await self.clusters()
        known = ", ".join(info.clusters) or "none"
        if cluster is None:
            if len(info.clusters) != 1:
                raise ClientError(f"name a cluster with -c, or a broker with -b; clusters known: {known}")
            cluster = next(iter(info.clusters))
        if cluster not in info.clusters:
            raise ClientError(f"no cluster is named {cluster}; clusters known: {known}")
        masters = info.masters(cluster)
        if not masters:
            raise ClientError(f"cluster {cluster} has no master; start its brokers first")
        return masters

    async def create_topic(self, address: str, config: TopicConfig) -> None:
        """Create or change a topic at one broker.

        Args:
            address: ip:port of a master.
            config: attribute names begin with ``+`` (set) or ``-`` (take away).

        Raises:
            InvalidParameter: the name is not legal.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not do it.
        """
        names.check_topic(config.name)
        header = CreateTopicRequest(
            topic=config.name,
            default_topic=names.DEFAULT_TOPIC,
            read_queue_nums=config.read_queues,
            write_queue_nums=config.write_queues,
            perm=config.perm,
            topic_filter_type=config.filter_type,
            topic_sys_flag=config.sys_flag,
            order=config.order,
            attributes=",".join(f"{k}={v}" if k.startswith("+") else k for k, v in config.attributes.items()),
            force=False,
        )
        await self._rpc().ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout_s=self._timeout_s)

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """What one broker knows of a topic.

        Raises:
            BrokerRefused: code 17, it knows none of that name; code 3, it is older than 5.0.
        """
        header = GetTopicConfigRequest(topic=topic, lo=True)
        return TopicConfig.from_json(_members(await self._ask(address, RequestCode.GET_TOPIC_CONFIG, header), "topic"))

    async def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Delete a topic at the masters of a cluster, then at every name server.

        Returns:
            Addresses of the brokers it was deleted at.

        Raises:
            ClientError: as `masters`.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a server does not do it; those before it did.
        """
        masters = await self.masters(cluster)
        for master in masters:
            await self._ask(master, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic=topic))
        header = DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster)
        for server in self.name_servers:
            await self._ask(server, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        return masters

    async def topic_stats(self, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        """Offsets of a topic's queues at one broker, sorted. Raises BrokerRefused: code 17, it has no such topic."""
        header = GetTopicStatsInfoRequest(topic=topic)
        members = _members(await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, header), "topic stats")
        found: dict[MessageQueue, QueueStats] = {}
        try:
            for key, stats in (members.get("offsetTable") or {}).items():
                queue = object_key(key)
                found[MessageQueue(str(queue["topic"]), str(queue["brokerName"]), int(queue["queueId"]))] = QueueStats(
                    int(stats["minOffset"]), int(stats["maxOffset"]), int(stats.get("lastUpdateTimestamp") or 0)
                )
        except (KeyError, TypeError, ValueError) as problem:
            raise FormatError(f"topic stats of {address} have members of the wrong kind: {problem!r}") from problem
        return dict(sorted(found.items()))

    async def runtime_info(self, address: str) -> dict[str, str]:
        """A broker's figures by name, as texts; which there are depends on its version."""
        members = _members(await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, None), "runtime info")
        return {str(name): str(value) for name, value in sorted((members.get("table") or {}).items())}

    async def members(self, address: str, group: str) -> list[str]:
        """Client ids of a consumer group's members that one broker sees, sorted; an id once for each connection.

        Args:
            address: ip:port of a broker; members are connected to every broker of the topics they consume.
            group: its name; a group that the broker does not know has no members.
        """
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            reply = await self._ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerRefused as problem:
            if problem.remark.startswith(NO_MEMBERS):
                return []
            raise
        return sorted(str(client_id) for client_id in _members(reply, "member list").get("consumerIdList") or ())

    async def ask(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes | None = None
    ) -> Command:
        """Ask one server anything; the answer says SUCCESS.

        Raises:
            BrokerRefused: the answer has another code.
            ConnectFailed, ConnectionLost, CallTimeout: there is no answer.
        """
        return await self._rpc().ask(address, code, header, body, timeout_s=self._timeout_s)

    async def _ask(self, address: str, code: RequestCode, header: Header | None) -> Command:
        return await self._rpc().ask(address, code, header, timeout_s=self._timeout_s)

    async def _ask_name_server(self, code: RequestCode, header: Header | None, server: str | None = None) -> Command:
        if server is not None:
            return await self._ask(server, code, header)
        reply, server = await self._started().routes.ask_any(code, header, self._timeout_s)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST and isinstance(header, GetRouteinfoByTopicRequest):
            raise NoRoute(f"no name server knows topic {header.topic}; 'gantrymq topic list' shows those there are")
        if reply.code != ResponseCode.SUCCESS:
            raise refused(reply, server)
        return reply

    def _rpc(self) -> RpcClient:
        return self._started().rpc


def _members(reply: Command, what: str) -> dict[Any, Any]:
    data = loads(reply.payload or b"{}")
    if not isinstance(data, dict):
        raise FormatError(f"the {what} reply is no JSON object: {reply.payload[:40]!r}")
    return data
