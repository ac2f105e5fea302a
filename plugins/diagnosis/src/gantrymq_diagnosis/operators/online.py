"""Online clients: 203, 204, 328 (connections), 345 (a subscription), 300, 343 (groups of a topic, topics of a group),
and 305 (the broker's own topics).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from gantrymq.errors import ConsumerNotOnline, RequestRefused
from gantrymq.plugin import loose_json, names
from gantrymq.plugin.headers import (
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)
from gantrymq.plugin.interfaces import OnlineClient
from gantrymq.plugin.loose_json import Entries, Items
from gantrymq.plugin.model import Action, format_address
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq_diagnosis.operators.requests import BrokerRequests

_CONNECTIONS_TOGETHER = 64  # connections to process without yielding
_REMOTING = "remoting"  # the only protocol of clients of RocketMQ's brokers


class OnlineRequests(BrokerRequests):
    """Handlers for online clients and their subscriptions."""

    @serves(RequestCode.GET_CONSUMER_CONNECTION_LIST, action=Action.GET, group="consumerGroup")
    async def consumer_connections(self, asked: Command, connection: Connection) -> Command:
        """203: return members and subscriptions of a consumer group."""
        name = GetConsumerConnectionListRequest.from_ext(asked.ext).consumer_group
        online = self._broker.clients.consumer_group(name)
        if online is None:
            raise ConsumerNotOnline(f"the consumer group[{name}] not online")
        body = {
            "connectionSet": Items(map(_connection, self._broker.clients.consumers(name))),
            "consumeFromWhere": online.consume_from_where,
            "consumeType": online.consume_type,
            "messageModel": online.message_model,
            "subscriptionTable": Entries(
                (topic, each.to_json()) for topic, each in sorted(online.subscriptions.items(), key=itemgetter(0))
            ),
        }
        return await self._long.make(asked, connection, body)

    @serves(RequestCode.GET_PRODUCER_CONNECTION_LIST, action=Action.GET)
    async def producer_connections(self, asked: Command, connection: Connection) -> Command:
        """204: return the members of a producer group."""
        name = GetProducerConnectionListRequest.from_ext(asked.ext).producer_group
        members = self._broker.clients.producers(name)
        if not members:
            raise RequestRefused(1, f"the producer group[{name}] not exist")
        return await self._long.make(asked, connection, {"connectionSet": Items(map(_connection, members))})

    @serves(RequestCode.GET_ALL_PRODUCER_INFO, action=Action.GET)
    async def all_producers(self, asked: Command, connection: Connection) -> Command:
        """328: return the members of all producer groups."""
        clients, groups = self._broker.clients, set[str]()
        slices = self._slices(_CONNECTIONS_TOGETHER)
        for each in clients.connections():
            groups.update(each.producers)
            await slices.item_done()
        online = ((group, members) for group in sorted(groups) if (members := clients.producers(group)))
        data = Entries((group, Items(map(_producer, members))) for group, members in online)
        return await self._long.make(asked, connection, {"data": data})

    @serves(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, action=Action.GET, topic="topic", group="group")
    def subscription(self, asked: Command, connection: Connection) -> Command:
        """345: return an online group's subscription to a topic; without one, no subscriptionData."""
        header = QuerySubscriptionByConsumerRequest.from_ext(asked.ext)
        found = self._broker.clients.subscription(header.group, header.topic or "")
        body: dict[str, Any] = {"group": header.group, "topic": header.topic}
        if found is not None:
            body["subscriptionData"] = found.to_json()
        return response_to(asked, 0, None, None, loose_json.dumps(body, sort=True))

    @serves(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, action=Action.GET, topic="topic")
    async def groups_of_topic(self, asked: Command, connection: Connection) -> Command:
        """300: return the groups that subscribe to a topic or have committed offsets for it."""
        topic = QueryTopicConsumeByWhoRequest.from_ext(asked.ext).topic
        clients, groups = self._broker.clients, dict[str, None]()
        slices = self._slices(_CONNECTIONS_TOGETHER)
        for each in clients.connections():
            groups |= {group: None for group in each.consumers if clients.subscription(group, topic) is not None}
            await slices.item_done()
        groups |= dict.fromkeys(self._broker.offsets.groups_of(topic))
        return await self._long.make(asked, connection, {"groupList": Items(groups)})

    @serves(RequestCode.QUERY_TOPICS_BY_CONSUMER, action=Action.GET, group="group")
    async def topics_of_group(self, asked: Command, connection: Connection) -> Command:
        """343: return the topics that a group subscribes to or has committed offsets for."""
        name = QueryTopicsByConsumerRequest.from_ext(asked.ext).group
        online = self._broker.clients.consumer_group(name)
        subscribed = list(online.subscriptions) if online is not None else []
        topics = dict.fromkeys([*subscribed, *self._broker.offsets.topics_of(name)])
        return await self._long.make(asked, connection, {"topicList": Items(topics)})

    @serves(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, action=Action.GET)
    def system_topics(self, asked: Command, connection: Connection) -> Command:
        """305: return the broker's own topics, including those reserved for disabled features."""
        topics = self._broker.topics
        own = [name for name in topics.view if topics.is_own(name)]
        reserved = sorted(names.SYSTEM_TOPICS.difference(own))
        return response_to(asked, 0, None, None, loose_json.dumps({"topicList": [*own, *reserved]}, sort=True))


def _connection(member: OnlineClient) -> dict[str, Any]:
    protocol = member.connection.protocol
    return {
        "clientAddr": format_address(*member.connection.peer),
        "clientId": member.client_id,
        "language": member.language,
        **({} if protocol == _REMOTING else {"protocol": protocol}),  # not in RocketMQ
        "version": member.version,
    }


def _producer(member: OnlineClient) -> dict[str, Any]:
    return {
        "clientId": member.client_id,
        "language": member.language,
        "lastUpdateTimestamp": member.heard_ms,
        "remoteIP": f"/{format_address(*member.connection.peer)}",  # Java's format of an address
        "version": member.version,
    }
