"""Queries about topics and clusters, and the changes that operators may make.

All lists are sorted; RocketMQ's are in hash order.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (getAllTopicList .. getHasUnitSubUnUnitTopicList,
getAllClusterInfo, getBrokerMemberGroup, deleteTopic, registerTopic, operateWritePermOfBroker).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from gantrymq.plugin.model import PERM_READ, PERM_WRITE
from gantrymq.plugin.network import DEFAULT_LISTENER
from gantrymq_nameserver.tables import MASTER_ID, BrokerAddress, QueueData, RouteTables


def all_topics(tables: RouteTables) -> list[str]:
    """Return all topics with queues."""
    return sorted(tables.queues)


def topics_of_cluster(tables: RouteTables, cluster: str) -> list[str]:
    """Return the topics with queues on a broker of *cluster*; empty for an unknown cluster."""
    names = tables.clusters.get(cluster, set())
    return sorted(topic for topic, by_broker in tables.queues.items() if not names.isdisjoint(by_broker))


def topics_where(tables: RouteTables, matches: Callable[[QueueData], bool]) -> list[str]:
    """Return the topics with a first queue data that *matches*; the brokers of a topic are assumed to agree."""
    return sorted(t for t, by_broker in tables.queues.items() if matches(next(iter(by_broker.values()))))


def system_topics(tables: RouteTables, listener: str = DEFAULT_LISTENER) -> tuple[list[str], str | None]:
    """Return cluster and broker names, for which brokers create topics, and the address of any one broker."""
    names = set(tables.clusters).union(*tables.clusters.values())
    brokers = (tables.through(each, listener) for each in tables.brokers.values())
    addresses = (b.addresses[b.smallest_id] for b in brokers if b.smallest_id is not None)
    return sorted(names), next(addresses, None)


def cluster_info(tables: RouteTables, listener: str = DEFAULT_LISTENER) -> dict[str, Any]:
    """Return all brokers, with the addresses of *listener* where they have one, and clusters: the body of 106.

    A member of GantryMQ's own, rivalAddrs, has other live brokers that register as the master of a name.
    """
    brokers, rivals = sorted(tables.brokers.items()), rival_masters(tables)
    return {
        "brokerAddrTable": {
            name: tables.through(broker, listener).to_json() | ({"rivalAddrs": rivals[name]} if name in rivals else {})
            for name, broker in brokers
        },
        "clusterAddrTable": {cluster: sorted(names) for cluster, names in sorted(tables.clusters.items())},
    }


def rival_masters(tables: RouteTables) -> dict[str, list[str]]:
    """Return live brokers that registered as the master of a broker name, but are not the one in the routes."""
    pairs = [(key.cluster, key.address, live.rival) for key, live in tables.live.items() if live.rival is not None]
    found: dict[str, list[str]] = {}
    if pairs:
        masters = {(each.cluster, each.addresses.get(MASTER_ID)): each for each in tables.brokers.values()}
        in_routes = {address for each in tables.brokers.values() for address in each.addresses.values()}
        for cluster, one, two in pairs:
            for master, other in ((one, two), (two, one)):
                broker = masters.get((cluster, master))
                here, there = (tables.live.get(BrokerAddress(cluster, each)) for each in (master, other))
                if broker is None or other in in_routes or here is None or there is None:
                    continue
                if here.version.state_version == there.version.state_version:  # else the newer one was elected
                    found.setdefault(broker.name, []).append(other)
    return found


def member_group(tables: RouteTables, cluster: str, broker_name: str) -> dict[str, Any]:
    """Return the addresses of one broker name by id, empty for an unknown one: the body of request 901."""
    broker = tables.brokers.get(broker_name)
    addresses = dict(sorted(broker.addresses.items())) if broker is not None else {}
    return {"brokerMemberGroup": {"brokerAddrs": addresses, "brokerName": broker_name, "cluster": cluster}}


def delete_topic(tables: RouteTables, topic: str, cluster: str | None = None) -> None:
    """Remove *topic*, or with *cluster* only its queues on that cluster's brokers."""
    if cluster is None:
        tables.queues.pop(topic, None)
        return
    by_broker = tables.queues.get(topic)
    if by_broker is not None:
        for name in tables.clusters.get(cluster, set()):
            by_broker.pop(name, None)
        if not by_broker:
            del tables.queues[topic]


def add_topic(tables: RouteTables, topic: str, queues: Iterable[QueueData]) -> None:
    """Add queues of *topic* (request 217).

    An unregistered broker name ends it: a new topic is then not added, an existing one keeps the queues added so far.
    """
    known = tables.queues.get(topic)
    by_broker = {} if known is None else known
    for data in queues:
        if data.broker_name not in tables.brokers:
            return
        by_broker[data.broker_name] = attrs.evolve(data)
    if by_broker:
        tables.queues[topic] = by_broker


def wipe_write_perm(tables: RouteTables, broker_name: str) -> int:
    """Make the queues of a broker read-only until it registers again. Return the number of its topics."""
    return _each_queue_data(tables, broker_name, lambda perm: perm & ~PERM_WRITE)


def add_write_perm(tables: RouteTables, broker_name: str) -> int:
    """Set the permission of a broker's queues to read and write. Return the number of its topics."""
    return _each_queue_data(tables, broker_name, lambda _: PERM_READ | PERM_WRITE)


def _each_queue_data(tables: RouteTables, broker_name: str, perm: Callable[[int], int]) -> int:
    count = 0
    for by_broker in tables.queues.values():
        data = by_broker.get(broker_name)
        if data is not None:
            data.perm = perm(data.perm)
            count += 1
    return count
