"""Unregistration of brokers, by request 104, a closed connection, or a missing heartbeat; processed in batches.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (unRegisterBroker, cleanTopicByUnRegisterRequests,
scanNotActiveBroker, onChannelDestroy, setupUnRegisterRequest), BatchUnregistrationService.java.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from gantrymq.plugin.model import PERM_WRITE
from gantrymq_nameserver.notices import MinBrokerIdChange, min_broker_id_change
from gantrymq_nameserver.tables import BrokerAddress, BrokerData, RouteTables

log = logging.getLogger(__name__)


class Unregistration(NamedTuple):
    """One broker process to unregister."""

    cluster: str
    broker_name: str
    address: str
    broker_id: int

    @property
    def key(self) -> BrokerAddress:
        """Its key in the live table."""
        return BrokerAddress(self.cluster, self.address)


def unregister(tables: RouteTables, batch: Iterable[Unregistration]) -> list[MinBrokerIdChange]:
    """Unregister all brokers of *batch*. Return the notices about changed smallest broker ids.

    A broker name without addresses loses its queues and its cluster membership, and an empty cluster is removed. If a
    remaining slave may act as master, the queues become read-only. Static-topic mappings stay, as in RocketMQ.

    An unregistration is accepted only if cluster, name, id and address are those of a registered broker. RocketMQ
    compares name and address only, so a slave configured with its master's address unregisters the master at its stop.
    """
    removed: set[str] = set()
    reduced: set[str] = set()
    offline: dict[str, str] = {}  # broker name -> address of the smallest id that left
    for leaving in batch:
        broker = _registered(tables, leaving)
        if broker is None:
            _ignore(tables, leaving)
            continue
        forget(tables, leaving.key)
        had_minimum = leaving.broker_id == broker.smallest_id
        del broker.addresses[leaving.broker_id]
        log.info("broker %s id %d at %s unregistered", leaving.broker_name, leaving.broker_id, leaving.address)
        if broker.addresses:
            reduced.add(leaving.broker_name)
            if had_minimum:
                offline[leaving.broker_name] = leaving.address
        else:
            del tables.brokers[leaving.broker_name]
            _leave_clusters(tables, leaving.broker_name)
            removed.add(leaving.broker_name)
    _clean_topics(tables, removed, reduced)
    return _changes(tables, offline)


def expired(tables: RouteTables, now_ms: int) -> list[BrokerAddress]:
    """Return the brokers without a heartbeat within their timeout, at *now_ms* of the monotonic clock."""
    return [key for key, live in tables.live.items() if live.expired(now_ms)]


def registered_on(tables: RouteTables, connection: object) -> list[BrokerAddress]:
    """Return the brokers that last registered over *connection*."""
    return [key for key, live in tables.live.items() if live.connection is connection]


def unregistration_of(tables: RouteTables, key: BrokerAddress) -> Unregistration | None:
    """Return the unregistration of the broker at *key*, None if no broker name of that cluster has the address."""
    for broker in tables.brokers.values():
        if broker.name in tables.clusters.get(key.cluster, ()):
            for broker_id, address in broker.addresses.items():
                if address == key.address:
                    return Unregistration(key.cluster, broker.name, address, broker_id)
    return None


def forget(tables: RouteTables, key: BrokerAddress) -> None:
    """Remove the live entry and filter servers of an address that no broker name has any more.

    RocketMQ keeps such an entry forever; nothing can be routed to it.
    """
    tables.live.pop(key, None)
    tables.filter_servers.pop(key, None)


def _registered(tables: RouteTables, leaving: Unregistration) -> BrokerData | None:
    """Return the broker name of *leaving*, None if it is not registered with exactly these values."""
    broker = tables.brokers.get(leaving.broker_name)
    if broker is None or broker.addresses.get(leaving.broker_id) != leaving.address:
        return None
    return broker if leaving.broker_name in tables.clusters.get(leaving.cluster, ()) else None


def _ignore(tables: RouteTables, leaving: Unregistration) -> None:
    for broker in tables.brokers.values():
        for broker_id, address in broker.addresses.items():
            if address == leaving.address:
                log.warning(
                    "unregistration of broker %s id %d of cluster %s ignored: broker %s id %d of cluster %s is "
                    "registered at %s; give each broker an address of its own (brokerIP1, listenPort)",
                    *(leaving.broker_name, leaving.broker_id, leaving.cluster),
                    *(broker.name, broker_id, broker.cluster, address),
                )
                return
    forget(tables, leaving.key)  # another broker with the same name and id replaced it


def _leave_clusters(tables: RouteTables, broker_name: str) -> None:
    for cluster, names in list(tables.clusters.items()):
        names.discard(broker_name)
        if not names:
            del tables.clusters[cluster]


def _clean_topics(tables: RouteTables, removed: set[str], reduced: set[str]) -> None:
    masterless = []
    for name in reduced:
        broker = tables.brokers.get(name)
        if broker is not None and broker.acting_master and not broker.has_master:
            masterless.append(name)
    if not removed and not masterless:
        return
    for topic, by_broker in list(tables.queues.items()):
        for name in removed & by_broker.keys():
            del by_broker[name]
        if not by_broker:
            del tables.queues[topic]
        for name in masterless:
            if name in by_broker:
                by_broker[name].perm &= ~PERM_WRITE


def _changes(tables: RouteTables, offline: dict[str, str]) -> list[MinBrokerIdChange]:
    changes = []
    for name, address in offline.items():
        broker = tables.brokers.get(name)
        if broker is not None and broker.acting_master:
            change = min_broker_id_change(broker.addresses, address, None)
            if change is not None:
                changes.append(change)
    return changes
