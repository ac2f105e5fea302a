"""Registration of a broker: the effect of request 103 on the tables.

    1 add the broker name to its cluster        5 an address has one id: remove its other ids
    2 unknown broker name: first registration   6 an id held by a broker with a newer state version is kept; an id held
                                                  by another live broker is taken over with a warning
    3 set acting-master flag and zone           7 refuse a single topic before the first full registration
    4 check for a new smallest id               8 set id -> address; 9 decide who contributes topics; 10 set topics;
                                               11 set the live entry; 12 set filter servers; 13 return the master's
                                               address to a slave; 14 create the notice

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (registerBroker).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import attrs

from gantrymq.errors import RequestError
from gantrymq.plugin.model import PERM_WRITE, DataVersion, TopicConfig
from gantrymq_nameserver.notices import MinBrokerIdChange, min_broker_id_change
from gantrymq_nameserver.tables import (
    BROKER_TIMEOUT_MS,
    MASTER_ID,
    BrokerAddress,
    BrokerData,
    LiveBroker,
    Mapping,
    QueueData,
    RouteTables,
)

log = logging.getLogger(__name__)


@attrs.frozen
class RegistrationBody:
    """Parsed body of a registration."""

    topics: dict[str, TopicConfig] = attrs.field(factory=dict)
    version: DataVersion = attrs.field(factory=DataVersion)
    mappings: dict[str, Mapping] = attrs.field(factory=dict)  # topic -> mapping info
    filter_servers: list[str] | None = None  # None: not sent, keep the known ones


@attrs.frozen(kw_only=True)
class Registration:
    """One request 103."""

    cluster: str
    broker_name: str
    address: str  # host:port
    broker_id: int
    ha_address: str | None = None
    zone: str | None = None
    timeout_ms: int | None = None  # None: BROKER_TIMEOUT_MS
    listeners: dict[str, str] = attrs.field(factory=dict)  # addresses of its other listeners, by name
    acting_master: bool | None = None  # None: sent by an old broker without this field
    connection: object | None = None
    body: RegistrationBody = attrs.field(factory=RegistrationBody)

    @property
    def key(self) -> BrokerAddress:
        """Its key in the live table."""
        return BrokerAddress(self.cluster, self.address)


class RegistrationResult(NamedTuple):
    """Response to the broker, and the notice for others."""

    master_address: str | None = None  # for slaves with a known master
    ha_address: str | None = None  # of that master
    change: MinBrokerIdChange | None = None


def register(
    tables: RouteTables, registration: Registration, now_ms: int, *, delete_missing: bool = False
) -> RegistrationResult:
    """Apply a registration that arrived at *now_ms* of the monotonic clock.

    Args:
        delete_missing: remove topics of this broker that the registration does not contain.
    Raises:
        RequestError: a single topic from a broker id that is not registered yet. As in RocketMQ, the broker name stays
            in the tables without this address.
    """
    tables.clusters.setdefault(registration.cluster, set()).add(registration.broker_name)
    broker = tables.brokers.get(registration.broker_name)
    first = broker is None
    if broker is None:
        broker = tables.brokers[registration.broker_name] = BrokerData(registration.cluster, registration.broker_name)
    broker.acting_master = bool(registration.acting_master)
    broker.zone = registration.zone
    # An empty map counts as smallest id 0, so the first address of a broker name is never a change.
    is_new_minimum = registration.broker_id < (broker.smallest_id or 0)
    for other_id in [
        i for i, a in broker.addresses.items() if a == registration.address and i != registration.broker_id
    ]:
        del broker.addresses[other_id]

    if _outranked(tables, broker, registration):
        tables.live.pop(registration.key, None)
        return RegistrationResult()
    if registration.broker_id not in broker.addresses and len(registration.body.topics) == 1:
        raise RequestError(
            f"register broker failed: {registration.broker_name} id {registration.broker_id} at {registration.address} "
            "sent a single topic before its first full registration; it will be taken after that"
        )
    first = not broker.addresses.get(registration.broker_id) or first
    rival = _warn_of_rival(tables, broker, registration)
    broker.addresses[registration.broker_id] = registration.address

    is_master = registration.broker_id == MASTER_ID
    is_prime_slave = (
        registration.acting_master is not None and not is_master and registration.broker_id == broker.smallest_id
    )
    if is_master or is_prime_slave:
        _take_topics(
            tables, registration, first, read_only=is_prime_slave and broker.acting_master, drop=delete_missing
        )
    _mark_live(tables, registration, now_ms, rival)
    change = min_broker_id_change(broker.addresses, None, registration.ha_address) if is_new_minimum else None
    return _answer(tables, broker, registration)._replace(change=change)


def _outranked(tables: RouteTables, broker: BrokerData, registration: Registration) -> bool:
    """Return whether another process has the id with a newer state version (a master elected later)."""
    held_by = broker.addresses.get(registration.broker_id)
    if held_by is None or held_by == registration.address:
        return False
    holder = tables.live.get(BrokerAddress(registration.cluster, held_by))
    if holder is None or holder.version.state_version <= registration.body.version.state_version:
        return False
    log.warning(
        "registration of %s as id %d of %s ignored: %s holds that id with state version %d, newer than %d",
        registration.address,
        registration.broker_id,
        registration.broker_name,
        held_by,
        holder.version.state_version,
        registration.body.version.state_version,
    )
    return True


def _warn_of_rival(tables: RouteTables, broker: BrokerData, registration: Registration) -> str | None:
    """Warn once about two live brokers with the same name and id. Return the address of the other one.

    The last one to register is in the route, as in RocketMQ. Both keep registering, so both remember the warning.
    """
    known = tables.live.get(registration.key)
    rival = None if known is None else known.rival
    held_by = broker.addresses.get(registration.broker_id, registration.address)
    key, holder = next((each for each in tables.live.items() if each[0].address == held_by), (None, None))
    if (
        held_by in {registration.address, rival}
        or key is None
        or holder is None
        or holder.rival == registration.address
    ):
        return rival
    one, other, remedy = held_by, registration.address, "brokerName or brokerId"
    if key.cluster != registration.cluster:
        one, other, remedy = f"{one} (cluster {key.cluster})", f"{other} (cluster {registration.cluster})", "brokerName"
    log.warning(
        "two brokers are registered as %s id %d, at %s and at %s: routes name the one that registered last, and "
        "clients miss what the other one stores; give one of them another %s",
        *(registration.broker_name, registration.broker_id, one, other, remedy),
    )
    return held_by


def _take_topics(tables: RouteTables, registration: Registration, first: bool, *, read_only: bool, drop: bool) -> None:
    name, body = registration.broker_name, registration.body
    if drop and not body.mappings:
        for topic in [t for t, by_broker in tables.queues.items() if name in by_broker and t not in body.topics]:
            del tables.queues[topic][name]
            if not tables.queues[topic]:
                del tables.queues[topic]
    changed = first or tables.version_differs(registration.key, body.version)
    for config in body.topics.values():
        by_broker = tables.queues.setdefault(config.name, {})
        if not changed and name in by_broker:
            continue
        data = QueueData.of(name, config)
        if read_only:
            data.perm &= ~PERM_WRITE
        by_broker[name] = data
    if changed:
        for topic, mapping in body.mappings.items():
            tables.mappings.setdefault(topic, {})[str(mapping.get("bname") or name)] = mapping


def _mark_live(tables: RouteTables, registration: Registration, now_ms: int, rival: str | None) -> None:
    timeout_ms = BROKER_TIMEOUT_MS if registration.timeout_ms is None else registration.timeout_ms
    known = tables.live.get(registration.key)
    if known is None:
        log.info(
            "broker %s id %d registered at %s", registration.broker_name, registration.broker_id, registration.address
        )
    tables.live[registration.key] = LiveBroker(
        now_ms,
        timeout_ms,
        registration.body.version,
        registration.connection,
        registration.ha_address,
        rival,
        registration.listeners,
    )
    servers = registration.body.filter_servers
    if servers:
        tables.filter_servers[registration.key] = servers
    elif servers is not None:
        tables.filter_servers.pop(registration.key, None)


def _answer(tables: RouteTables, broker: BrokerData, registration: Registration) -> RegistrationResult:
    """Return the response; for a slave with a live master it has the master's addresses."""
    master = broker.addresses.get(MASTER_ID)
    if registration.broker_id == MASTER_ID or master is None:
        return RegistrationResult()
    live = tables.live.get(BrokerAddress(registration.cluster, master))
    return RegistrationResult() if live is None else RegistrationResult(master, live.ha_address)
