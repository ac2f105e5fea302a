"""The queues of a topic on all brokers of the cluster, from the route of a name server.

Source: apache/rocketmq broker/.../topic/TopicRouteInfoManager.java (getTopicSubscribeInfo).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gantrymq import loose_json
from gantrymq.broker.identity import Identity
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import BrokerRefused, ClientError, FormatError
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import PERM_READ
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest

ASK_TIMEOUT_S = 3.0  # TopicRouteInfoManager.GET_TOPIC_ROUTE_TIMEOUT


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
        problem: ClientError | None = None
        for address in self._name_servers:
            try:
                return await self._asked(address, topic)
            except ClientError as error:
                problem = error
        if problem is not None:
            raise problem
        return self._own(topic)

    def _own(self, name: str) -> list[MessageQueue]:
        topic = self._topics.get(name)
        if topic is None or not topic.readable:
            return []
        return [MessageQueue(name, self._identity.broker_name, each) for each in range(topic.read_queues)]

    async def _asked(self, address: str, topic: str) -> list[MessageQueue]:
        header = GetRouteinfoByTopicRequest(topic=topic, accept_standard_json_only=True)
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_ext())
        answer = await self._client.call(address, command, timeout_s=ASK_TIMEOUT_S)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "no reason given", address)
        try:
            route: Any = loose_json.loads(answer.payload)
            return [
                MessageQueue(topic, str(grant["brokerName"]), queue_id)
                for grant in route["queueDatas"]
                if int(grant["perm"]) & PERM_READ
                for queue_id in range(int(grant["readQueueNums"]))
            ]
        except (FormatError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise BrokerRefused(1, f"its route of {topic} cannot be read: {error!r}", address) from error
