"""The tables of a name server: six tables of plain values, changed only by the modules of this package.

    queues          topic -> broker name -> QueueData
    brokers         broker name -> BrokerData (id -> address)
    clusters        cluster -> broker names
    live            (cluster, address) -> LiveBroker
    filter_servers  (cluster, address) -> addresses of filter servers
    mappings        topic -> broker name -> static-topic mapping, as the broker sent it

One event loop owns them, so there is no lock. Responses are sorted, so iteration order is never visible to a peer.

Source: apache/rocketmq namesrv/.../routeinfo/RouteInfoManager.java (fields), remoting/.../protocol/route/{QueueData,
BrokerData}.java.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import attrs

from gantrymq.plugin.model import PERM_WRITE, SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB, DataVersion, TopicConfig
from gantrymq.plugin.network import DEFAULT_LISTENER

MASTER_ID: Final = 0
BROKER_TIMEOUT_MS: Final = 120_000  # default time without a heartbeat after which a broker is removed

Mapping = dict[str, Any]


@attrs.define
class QueueData:
    """Queue counts and permissions of one topic on one broker."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int
    attributes: dict[str, str] | None = None  # of the topic, such as message.type

    @classmethod
    def of(cls, broker_name: str, topic: TopicConfig) -> QueueData:
        """Create it from the configuration of *topic* on *broker_name*."""
        return cls(
            broker_name, topic.read_queues, topic.write_queues, topic.perm, topic.sys_flag, topic.attributes or None
        )

    @property
    def writable(self) -> bool:
        """Whether producers may send to it."""
        return bool(self.perm & PERM_WRITE)

    @property
    def is_unit(self) -> bool:
        """Whether the topic belongs to a unit."""
        return bool(self.sys_flag & SYS_FLAG_UNIT)

    @property
    def has_unit_subscription(self) -> bool:
        """Whether a unit subscribes to the topic."""
        return bool(self.sys_flag & SYS_FLAG_UNIT_SUB)

    def to_json(self) -> dict[str, Any]:
        """Return the members in RocketMQ's order."""
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


@attrs.define
class BrokerData:
    """One broker name: its master (id 0) and its slaves."""

    cluster: str
    name: str
    addresses: dict[int, str] = attrs.field(factory=dict)  # broker id -> host:port
    zone: str | None = None
    acting_master: bool = False  # a slave may stand in for a missing master

    @property
    def smallest_id(self) -> int | None:
        """The smallest registered id, None without an address."""
        return min(self.addresses, default=None)

    @property
    def has_master(self) -> bool:
        """Whether id 0 has an address."""
        return MASTER_ID in self.addresses

    def copy(self) -> BrokerData:
        """Return a copy with its own address table."""
        return attrs.evolve(self, addresses=dict(self.addresses))

    def to_json(self) -> dict[str, Any]:
        """Return the members in RocketMQ's order; ids are integer keys, a missing zone is None."""
        return {
            "brokerAddrs": dict(sorted(self.addresses.items())),
            "brokerName": self.name,
            "cluster": self.cluster,
            "enableActingMaster": self.acting_master,
            "zoneName": self.zone,
        }


class BrokerAddress(NamedTuple):
    """Key of the live table: one broker process."""

    cluster: str
    address: str  # host:port


@attrs.define(eq=False)
class LiveBroker:
    """Last registration or heartbeat of a broker process, and its connection."""

    updated_ms: int  # on the monotonic clock, as all times of these tables
    timeout_ms: int
    version: DataVersion
    connection: object | None  # compared by identity only
    ha_address: str | None
    rival: str | None = None  # address of another live broker of the same name and id, once that was logged
    listeners: dict[str, str] = attrs.field(factory=dict)  # addresses of its other listeners, by name

    def expired(self, now_ms: int) -> bool:
        """Return whether its timeout has passed without a heartbeat."""
        return self.updated_ms + self.timeout_ms < now_ms


@attrs.define(eq=False)
class RouteTables:
    """All tables of one name server."""

    queues: dict[str, dict[str, QueueData]] = attrs.field(factory=dict)
    brokers: dict[str, BrokerData] = attrs.field(factory=dict)
    clusters: dict[str, set[str]] = attrs.field(factory=dict)
    live: dict[BrokerAddress, LiveBroker] = attrs.field(factory=dict)
    filter_servers: dict[BrokerAddress, list[str]] = attrs.field(factory=dict)
    mappings: dict[str, dict[str, Mapping]] = attrs.field(factory=dict)

    def version_differs(self, broker: BrokerAddress, version: DataVersion) -> bool:
        """Return whether *version* differs from the last registration of *broker*; True if the broker is not live."""
        live = self.live.get(broker)
        return live is None or live.version != version

    def through(self, broker: BrokerData, listener: str) -> BrokerData:
        """Return *broker* with the addresses of *listener*, where it has one: a copy, except for the default one."""
        if listener == DEFAULT_LISTENER:
            return broker
        copied = broker.copy()
        for broker_id, address in broker.addresses.items():
            live = self.live.get(BrokerAddress(broker.cluster, address))
            if live is not None:
                copied.addresses[broker_id] = live.listeners.get(listener, address)
        return copied

    def refresh(self, broker: BrokerAddress, now_ms: int) -> None:
        """Update the time of the last heartbeat of *broker*; never creates an entry."""
        live = self.live.get(broker)
        if live is not None:
            live.updated_ms = now_ms
