"""Route lookup (request 105): builds a route from the tables without changing them.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (pickupTopicRouteData), ZoneRouteRPCHook.java,
remoting/.../protocol/route/TopicRouteData.java.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq_nameserver.tables import MASTER_ID, BrokerAddress, BrokerData, Mapping, QueueData, RouteTables

_MEMBER_TOPIC_PREFIX: Final = (
    "rmq_sys_SYNC_BROKER_MEMBER_"  # brokers query their own group with it: never an acting master
)


@attrs.define
class Route:
    """Route of one topic; a copy that may be changed."""

    queues: list[QueueData]
    brokers: list[BrokerData]
    filter_servers: dict[str, list[str] | None]  # by broker address
    mappings: dict[str, Mapping] | None = None  # by broker name; None for ordinary topics
    order_config: str | None = None  # "broker-a:4;broker-b:8"
    listeners: dict[str, dict[int, dict[str, str]]] | None = None  # addresses by broker name, id, listener; on request

    def to_json(self) -> dict[str, Any]:
        """Return the members in RocketMQ's order; absent ones are None."""
        brokers = [broker.to_json() for broker in self.brokers]
        queues = [queue.to_json() for queue in self.queues]
        if self.listeners is not None:
            for broker in brokers:
                broker["listenerAddrs"] = self.listeners[broker["brokerName"]]
            for queue, data in zip(queues, self.queues, strict=True):
                queue["attributes"] = data.attributes or {}
        return {
            "brokerDatas": brokers,
            "filterServerTable": self.filter_servers,
            "orderTopicConf": self.order_config,
            "queueDatas": queues,
            "topicQueueMappingByBroker": self.mappings,
        }


def find_route(tables: RouteTables, topic: str, *, acting_master: bool = False, details: bool = False) -> Route | None:
    """Return the route of *topic*, or None if no known broker has queues of it.

    Brokers and queues are sorted by broker name. Queues of an unknown broker name are listed without an address.

    Args:
        acting_master: let the smallest slave stand in for a missing master (``supportActingMaster``).
        details: with the addresses of listeners and the attributes of the topic, which GantryMQ's brokers ask for.
    """
    by_broker = tables.queues.get(topic)
    if by_broker is None:
        return None
    names = sorted(by_broker)
    brokers = [tables.brokers[name].copy() for name in names if name in tables.brokers]
    if not brokers:
        return None
    queues = [attrs.evolve(by_broker[name]) for name in names]
    route = Route(queues, brokers, _filter_servers(tables, brokers), tables.mappings.get(topic))
    if acting_master and not topic.startswith(_MEMBER_TOPIC_PREFIX):
        _seat_acting_masters(route)
    if details:
        route.listeners = {broker.name: _listeners(tables, broker) for broker in route.brokers}
    return route


def keep_zone(route: Route, zone: str) -> None:
    """Remove the brokers with a master outside *zone* (compared case-insensitively) from *route*.

    A broker without a master stays: consuming from a slave in another zone is better than not consuming.
    """
    dropped = [b for b in route.brokers if b.has_master and (b.zone or "").lower() != zone.lower()]
    names = {broker.name for broker in dropped}
    route.brokers = [broker for broker in route.brokers if broker.name not in names]
    route.queues = [queue for queue in route.queues if queue.broker_name not in names]
    for broker in dropped:
        for address in broker.addresses.values():
            route.filter_servers.pop(address, None)


def use_listener(tables: RouteTables, route: Route, listener: str) -> None:
    """Replace the addresses of brokers in *route* by those of their *listener*, where they have one."""
    for index, broker in enumerate(route.brokers):
        route.brokers[index] = through = tables.through(broker, listener)
        for broker_id, address in broker.addresses.items():
            if address in route.filter_servers:
                route.filter_servers[through.addresses[broker_id]] = route.filter_servers.pop(address)


def _listeners(tables: RouteTables, broker: BrokerData) -> dict[int, dict[str, str]]:
    live = {each: tables.live.get(BrokerAddress(broker.cluster, at)) for each, at in broker.addresses.items()}
    return {each: found.listeners for each, found in live.items() if found is not None and found.listeners}


def _filter_servers(tables: RouteTables, brokers: list[BrokerData]) -> dict[str, list[str] | None]:
    if not tables.filter_servers:
        return {}
    return {
        address: tables.filter_servers.get(BrokerAddress(broker.cluster, address))
        for broker in brokers
        for address in broker.addresses.values()
    }


def _seat_acting_masters(route: Route) -> None:
    """List the smallest slave as id 0 if the broker allows it and its queues are read-only."""
    writable = {queue.broker_name: queue.writable for queue in route.queues}
    for broker in route.brokers:
        smallest = broker.smallest_id
        if smallest is None or broker.has_master or not broker.acting_master or writable[broker.name]:
            continue
        broker.addresses[MASTER_ID] = broker.addresses.pop(smallest)
