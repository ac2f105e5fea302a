"""The queues of a topic on all brokers of the cluster, from the route of a name server.

Source: apache/rocketmq broker/.../topic/TopicRouteInfoManager.java (getTopicSubscribeInfo).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from gantrymq.broker.identity import Identity
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import PERM_READ
from gantrymq.remoting.client import RemotingClient, ask_route


class ClusterQueues:
    """Queries the name servers of this broker; without one, the cluster consists of this broker."""

    def __init__(
        self, identity: Identity, topics: TopicTable, client: RemotingClient, name_servers: Sequence[str]
    ) -> None:
        """*name_servers* are tried in order until one responds."""
        self._identity = identity
        self._topics = topics
        self._client = client
        self._name_servers = name_servers

    async def readable(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, in no particular order; empty for an unknown topic.

        Raises:
            ClientError: no name server responds.
        """
        found = await ask_route(self._client, self._name_servers, topic, partial(_readable, topic))
        return self._own(topic) if found is None else found

    def _own(self, name: str) -> list[MessageQueue]:
        topic = self._topics.get(name)
        if topic is None or not topic.readable:
            return []
        return [MessageQueue(name, self._identity.broker_name, each) for each in range(topic.read_queues)]


def _readable(topic: str, route: Any) -> list[MessageQueue]:
    return [
        MessageQueue(topic, str(grant["brokerName"]), queue_id)
        for grant in route["queueDatas"]
        if int(grant["perm"]) & PERM_READ
        for queue_id in range(int(grant["readQueueNums"]))
    ]
