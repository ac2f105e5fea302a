"""Entry point ``replication``: the services of slave and master, the gate of a SYNC_MASTER, and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, GateRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_replication.parts import Parts


# The hooks of one plugin load run in sequence; the gate hook is the first of those that use it.
_of_this_load: list[Parts] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_replication.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_gates(registry: GateRegistry) -> None:
    """Register the gate of a SYNC_MASTER."""
    from gantrymq_replication.parts import Parts

    _of_this_load[:] = [Parts()]
    registry.add(_of_this_load[0].gate)
    registry.add(_of_this_load[0].elected_gate)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the services; the slave's starts first, and makes the broker a replica."""
    parts = _of_this_load[0]
    registry.add(parts.election)
    registry.add(parts.election.copies)
    registry.add(parts.slave)
    registry.add(parts.acting)
    registry.add(parts.commits)
    registry.add(parts.tables)
    registry.add(parts.master)
    registry.add(parts.status)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handlers of requests about replication."""
    from gantrymq.plugin.remoting import handlers_of

    parts = _of_this_load[0]
    for family in (parts.status, parts.acting, parts.election, parts.election.copies):
        for code, handler in handlers_of(family).items():
            registry.add(code, handler)
    for code, handler in parts.election_requests.items():
        registry.add(code, handler)
