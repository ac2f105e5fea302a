"""Entry point ``replication``: the services of slave and master, the gate of a SYNC_MASTER, and their settings."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, GateRegistry, ServiceRegistry
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.master import MasterService
from gantrymq_replication.settings import SCHEMA
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

# Shared by the hooks of one plugin load, which run in sequence; the gate hook runs before the service hook.
_of_this_load: list[ReplicaGate] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_gates(registry: GateRegistry) -> None:
    """Register the gate of a SYNC_MASTER."""
    _of_this_load[:] = [ReplicaGate()]
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the services; that of the slave starts first, and makes the broker a replica."""
    slave = SlaveService()
    registry.add(slave)
    registry.add(TablesService(lambda: slave.following))
    registry.add(MasterService(_of_this_load[0]))
