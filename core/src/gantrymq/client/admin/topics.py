"""Topics: created and deleted at the masters of a cluster.

Name servers learn of new topics from brokers; a deletion is sent to them as well.

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.client.admin.clusters import ClusterCalls
from gantrymq.client.admin.errors import parsing
from gantrymq.client.argument_types import check_kind
from gantrymq.client.routing.routes import TopicRoute, parse_route
from gantrymq.loose_json import object_key
from gantrymq.model import names
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.nameserver import (
    DeleteTopicInNamesrvRequest,
    GetRouteinfoByTopicRequest,
    GetTopicsByClusterRequest,
)
from gantrymq.remoting.headers.topics import (
    CreateTopicRequest,
    DeleteTopicInBrokerRequest,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
    QueryTopicConsumeByWhoRequest,
)


@attrs.frozen
class QueueStats:
    """Bounds of one queue at its broker, in queue offsets."""

    min_offset: int
    max_offset: int
    updated_ms: int  # store time of the last message, 0 without one

    @property
    def count(self) -> int:
        """Number of messages in the queue."""
        return self.max_offset - self.min_offset


class TopicCalls(ClusterCalls):
    """Part of `Admin`. Unless stated otherwise, calls with an *address* raise BrokerRefused with the broker's code, or
    ConnectFailed, ConnectionLost or CallTimeout without a response.
    """

    async def topics(self, server: str | None = None) -> tuple[str, ...]:
        """Return the names of all topics, sorted. *server* and errors as for `clusters`."""
        return await self._topics(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, server)

    async def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Return the names of the topics of *cluster*, sorted. Raises as `clusters`."""
        header = GetTopicsByClusterRequest(cluster=cluster)
        return await self._topics(RequestCode.GET_TOPICS_BY_CLUSTER, header)

    async def _topics(self, code: RequestCode, header: Header | None, server: str | None = None) -> tuple[str, ...]:
        reply = await self._request_name_server(code, header, server)
        return await self._parsed(reply, "the topics of a name server", _names)

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of one topic.

        Raises:
            NoRoute: there is none.
            as `clusters`: all other errors.
        """
        header = GetRouteinfoByTopicRequest(topic=topic, accept_standard_json_only=True)
        return parse_route((await self._request_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)).payload)

    async def topic_clusters(self, topic: str) -> tuple[str, ...]:
        """Return the clusters that have the topic, sorted. Raises as `route`."""
        return tuple(sorted({broker.cluster for broker in (await self.route(topic)).brokers}))

    async def create_topic(self, address: str, config: TopicConfig) -> None:
        """Create or change a topic at one broker.

        Args:
            address: ip:port of a master.
            config: attribute names begin with ``+`` (set) or ``-`` (remove).

        Raises:
            InvalidParameter: the name is not legal.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker did not change it.
        """
        check_kind("config", config, TopicConfig)
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
        await self.request(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def create_topic_in(self, config: TopicConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a topic at every master of a cluster.

        Returns:
            Addresses of the masters.

        Raises:
            as `masters`: the cluster is not clear.
            as `create_topic`: all other errors; earlier masters have the topic.
        """
        check_kind("config", config, TopicConfig)
        names.check_topic(config.name)
        masters = await self.masters(cluster)
        for master in masters:
            await self.create_topic(master, config)
        return masters

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the settings of a topic at one broker.

        Raises:
            RequestNotServed: the broker is older than 5.0.
            BrokerRefused: code 17, the broker does not know the topic.
        """
        header = GetTopicConfigRequest(topic=topic, lo=True)
        found = await self.request_json(address, RequestCode.GET_TOPIC_CONFIG, header, what="topic settings")
        with parsing(f"the settings of topic {topic} at {address}"):
            return TopicConfig.from_json(found)

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """Return every topic that one broker knows, sorted by name, system topics included."""
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        return await self.request_parsed(address, code, _configs, what=f"the topics of {address}")

    async def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Delete a topic at the masters of a cluster, then at every name server.

        Returns:
            Addresses of the brokers it was deleted at.

        Raises:
            ClientError: as `masters`.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a server failed; the topic is deleted at earlier
                ones.
        """
        masters = await self.masters(cluster)
        for master in masters:
            await self.request(master, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic=topic))
        header = DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster)
        for server in self.name_servers:
            await self.request(server, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        return masters

    async def topic_stats(self, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets of a topic's queues at one broker, sorted.

        Raises:
            BrokerRefused: code 17, the broker does not know the topic.
        """
        header = GetTopicStatsInfoRequest(topic=topic)
        code = RequestCode.GET_TOPIC_STATS_INFO
        return await self.request_parsed(address, code, _stats, header, what=f"topic stats of {address}")

    async def topic_status(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets of a topic's queues at every broker of its route, sorted.

        Raises as `route` and `topic_stats`.
        """
        found: dict[MessageQueue, QueueStats] = {}
        for broker in (await self.route(topic)).brokers:
            address = broker.readable()
            if address is not None:
                found |= await self.topic_stats(address, topic)
        return dict(sorted(found.items()))

    async def groups_of_topic(self, address: str, topic: str) -> tuple[str, ...]:
        """Return the consumer groups of a topic at one broker, online or with offsets, sorted."""
        header = QueryTopicConsumeByWhoRequest(topic=topic)
        found = await self.request_json(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header, what="groups")
        return tuple(sorted({str(group) for group in found.get("groupList") or ()}))


def _names(members: Mapping[Any, Any]) -> tuple[str, ...]:
    return tuple(sorted({str(topic) for topic in members.get("topicList") or ()}))


def _configs(members: Mapping[Any, Any]) -> dict[str, TopicConfig]:
    table = members.get("topicConfigTable") or {}
    return {str(name): TopicConfig.from_json(table[name], str(name)) for name in sorted(table)}


def _stats(members: Mapping[Any, Any]) -> dict[MessageQueue, QueueStats]:
    found = {
        MessageQueue.from_json(object_key(key)): QueueStats(
            int(stats["minOffset"]), int(stats["maxOffset"]), int(stats.get("lastUpdateTimestamp") or 0)
        )
        for key, stats in (members.get("offsetTable") or {}).items()
    }
    return dict(sorted(found.items()))
