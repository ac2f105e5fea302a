"""The engine that the settings ask for."""

from __future__ import annotations

from functools import partial

from gantrymq.plugin.interfaces import BrokerCluster
from gantrymq.plugin.network import inner_client
from gantrymq_replication.election.controller import ControllerEngine, ControllerSettings
from gantrymq_replication.election.engine import Engine
from gantrymq_replication.election.etcd import EtcdEngine, EtcdEngineSettings
from gantrymq_replication.election.etcd_client import Etcd
from gantrymq_replication.settings import ElectionSettings


def make_engine(broker: BrokerCluster, rules: ElectionSettings, etcd: Etcd | None, *, durable: bool) -> Engine:
    """Return an engine that is not open yet; *durable*: acknowledgements wait for the disk."""
    registration, world = broker.registration, broker.world
    if etcd is not None:
        return EtcdEngine(
            world,
            etcd,
            EtcdEngineSettings(
                cluster=registration.cluster,
                broker=registration.broker_name,
                address=registration.address,
                ha_address=registration.ha_address,
                identity=rules.identity,
                durable=durable,
                priority=rules.priority,
                least_copies=rules.least_copies,
                lease_s=rules.lease_s,
            ),
        )
    controllers = ControllerSettings(
        addresses=rules.controllers,
        cluster=registration.cluster,
        broker=registration.broker_name,
        address=registration.address,
        identity=rules.identity,
        least_copies=rules.least_copies,
        heartbeat_s=rules.heartbeat_s,
        priority=rules.priority,
    )
    return ControllerEngine(world, controllers, partial(inner_client, world, broker.settings))
