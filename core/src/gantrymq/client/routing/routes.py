"""Routes: brokers and queues of a topic, as encoded by name servers. No I/O.

    {"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b","cluster":"C"}],
     "queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4,"topicSysFlag":0}],
     "orderTopicConf":"b:4;c:8", "topicQueueMappingByBroker":{...}}            the last two are usually left out

Broker ids may be quoted or not; id 0 is the master.

Sources: apache/rocketmq remoting/.../protocol/route/TopicRouteData.java, client/.../impl/factory/MQClientInstance.java
(topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo, findBrokerAddressInSubscribe).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.client.errors import AnswerUnreadable, client_errors
from gantrymq.loose_json import int_keys, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import PERM_READ, PERM_WRITE

MASTER_ID = 0


@attrs.frozen
class BrokerAddresses:
    """Addresses of one broker name: a master and its slaves."""

    name: str
    cluster: str
    addresses: Mapping[int, str]  # broker id to ip:port
    rivals: tuple[str, ...] = ()  # other live brokers that register as the master; in `ClusterInfo`, of GantryMQ only

    @property
    def master(self) -> str | None:
        """Address for sends; None while no master is registered."""
        return self.addresses.get(MASTER_ID)

    def readable(self, broker_id: int = MASTER_ID, *, only_this: bool = False) -> str | None:
        """Return the address for pulls: the given id, then the next id (for slaves), then any, unless *only_this*."""
        found = self.addresses.get(broker_id)
        if found is None and broker_id != MASTER_ID:
            found = self.addresses.get(broker_id + 1)
        if found is None and not only_this:
            found = next(iter(self.addresses.values()), None)
        return found


@attrs.frozen
class QueueGrant:
    """Queues and permission of a topic at one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@attrs.frozen
class TopicRoute:
    """Brokers and queues of one topic, both sorted by broker name."""

    queues: tuple[QueueGrant, ...]
    brokers: tuple[BrokerAddresses, ...]
    order: str = ""  # "broker:count;..." if the topic is ordered cluster-wide
    static: bool = False  # the topic has logical queues mapped onto brokers

    def broker(self, name: str) -> BrokerAddresses | None:
        """Return the addresses of one broker name."""
        return next((broker for broker in self.brokers if broker.name == name), None)

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues to send to.

        These are the queues of the order configuration if there is one, else every write queue of every broker that
        permits writing and has a master. If none has one, the masters are being replaced: sends wait for them.
        """
        if self.order:
            return tuple(MessageQueue(topic, name, i) for name, count in _order(self.order) for i in range(count))
        masters = {broker.name for broker in self.brokers if broker.master is not None}
        grants = [grant for grant in self.queues if grant.perm & PERM_WRITE]
        return tuple(
            MessageQueue(topic, grant.broker_name, i)
            for grant in [each for each in grants if each.broker_name in masters] or grants
            for i in range(grant.write_queues)
        )

    def readable_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues to pull from: every read queue of every broker that permits reading, with or without a
        master.
        """
        return tuple(
            MessageQueue(topic, grant.broker_name, i)
            for grant in self.queues
            if grant.perm & PERM_READ
            for i in range(grant.read_queues)
        )

    def capped(self, most: int) -> TopicRoute:
        """Return the route with both queue counts at min(*most*, read queues), for a topic to be created."""
        queues = [
            attrs.evolve(q, read_queues=min(most, q.read_queues), write_queues=min(most, q.read_queues))
            for q in self.queues
        ]
        return attrs.evolve(self, queues=tuple(queues))

    def to_json(self) -> dict[str, Any]:
        """Return the members that RocketMQ writes, in strict JSON (quoted broker ids), without empty ones."""
        members: dict[str, Any] = {
            "brokerDatas": [
                {
                    "brokerAddrs": {str(broker_id): address for broker_id, address in broker.addresses.items()},
                    "brokerName": broker.name,
                    "cluster": broker.cluster,
                }
                for broker in self.brokers
            ],
            "queueDatas": [
                {
                    "brokerName": q.broker_name,
                    "perm": q.perm,
                    "readQueueNums": q.read_queues,
                    "topicSysFlag": q.sys_flag,
                    "writeQueueNums": q.write_queues,
                }
                for q in self.queues
            ],
        }
        if self.order:
            members["orderTopicConf"] = self.order
        return members


@attrs.frozen
class ClusterInfo:
    """All brokers known to one name server."""

    brokers: tuple[BrokerAddresses, ...]  # sorted by name
    clusters: Mapping[str, tuple[str, ...]]  # cluster name to broker names, sorted

    def masters(self, cluster: str) -> tuple[str, ...]:
        """Return the addresses of the masters of *cluster*, sorted by broker name."""
        names = self.clusters.get(cluster, ())
        return tuple(b.master for b in self.brokers if b.name in names and b.master is not None)


def parse_route(body: bytes) -> TopicRoute:
    """Decode the body of a route response, strict JSON or fastjson's dialect.

    Raises:
        AnswerUnreadable: not a JSON object, or members of the wrong type.
    """
    data = _object(body, "route")
    try:
        queues = [
            QueueGrant(
                str(member["brokerName"]),
                int(member.get("readQueueNums", 16)),
                int(member.get("writeQueueNums", 16)),
                int(member.get("perm", PERM_READ | PERM_WRITE)),
                int(member.get("topicSysFlag") or 0),
            )
            for member in data.get("queueDatas") or ()
        ]
        brokers = [_broker(member) for member in data.get("brokerDatas") or ()]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise AnswerUnreadable(f"route reply has members of the wrong type: {problem!r}") from problem
    return TopicRoute(
        queues=tuple(sorted(queues, key=lambda q: q.broker_name)),
        brokers=tuple(sorted(brokers, key=lambda b: b.name)),
        order=str(data.get("orderTopicConf") or ""),
        static=bool(data.get("topicQueueMappingByBroker")),
    )


def parse_clusters(body: bytes) -> ClusterInfo:
    """Decode the body of a cluster-info response.

    Raises:
        AnswerUnreadable: not a JSON object, or members of the wrong type.
    """
    data = _object(body, "cluster-info")
    try:
        brokers = [_broker(member) for member in (data.get("brokerAddrTable") or {}).values()]
        clusters = {str(k): tuple(sorted(map(str, v))) for k, v in (data.get("clusterAddrTable") or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise AnswerUnreadable(f"cluster-info reply has members of the wrong type: {problem!r}") from problem
    return ClusterInfo(tuple(sorted(brokers, key=lambda b: b.name)), dict(sorted(clusters.items())))


def _object(body: bytes, what: str) -> dict[Any, Any]:
    with client_errors():
        data = loads(body)
    if not isinstance(data, dict):
        raise AnswerUnreadable(f"{what} reply is not a JSON object: {body[:40]!r}")
    return data


def _broker(member: dict[str, Any]) -> BrokerAddresses:
    addresses = int_keys(member.get("brokerAddrs") or {})
    return BrokerAddresses(
        name=str(member["brokerName"]),
        cluster=str(member.get("cluster") or ""),
        addresses={broker_id: str(addresses[broker_id]) for broker_id in sorted(addresses)},
        rivals=tuple(map(str, member.get("rivalAddrs") or ())),
    )


def _order(text: str) -> list[tuple[str, int]]:
    """Return broker names and queue counts of an order configuration, without malformed entries."""
    entries = [entry.rpartition(":") for entry in text.split(";")]
    return [(name, int(count)) for name, mark, count in entries if mark and name and count.isdecimal()]
