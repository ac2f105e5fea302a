"""Entry point ``replication``: the services of slave and master, the gate of a SYNC_MASTER, and their settings."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import ConfigRegistry, GateRegistry, ServiceRegistry
from gantrymq.plugin.remoting import HandlerRegistry, handlers_of
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.election.requests import ElectionRequests
from gantrymq_replication.election.service import ElectionService
from gantrymq_replication.gate import ElectedGate, ReplicaGate
from gantrymq_replication.master import MasterService
from gantrymq_replication.own_commits import OwnCommits
from gantrymq_replication.settings import SCHEMA
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.status import StatusService
from gantrymq_replication.tables import TablesService
from gantrymq_replication.traffic import Departures


class _Parts:
    """The objects that the hooks of one plugin load register."""

    def __init__(self) -> None:
        self.gate, self.slave = ReplicaGate(), SlaveService()
        self.elected_gate = ElectedGate()
        self.election = ElectionService(self.elected_gate)
        self.acting = ActingService(self.slave)
        self.master = MasterService(self.gate, self.acting)
        self.election_requests = ElectionRequests(self.election, self._departures)
        self.commits = OwnCommits()
        self.tables = TablesService(self._followed, self.commits, self._elected_id)
        self.election.on_follow = self.tables.followed_changed
        self.election.has_tables = lambda: self.tables.rounds > 0
        self.status = StatusService(self.slave, self.master, self.tables, self.acting, self.election)

    def _departures(self) -> Departures | None:
        """Return why slaves of a master with a fixed role are gone; None from other brokers."""
        return self.master.replicas.departures if self.master.replicas is not None else None

    def _followed(self) -> str | None:
        """Return the broker address of the master whose tables are copied."""
        if self.election.enabled:
            return self.election.copy.followed
        return self.slave.followed if self.acting.may_copy_tables() else None

    def _elected_id(self) -> int:
        """Return the id by which this broker asks its elected master for tables; 0 with fixed roles."""
        return self.election.election.own_id if self.election.election is not None else 0


# The hooks of one plugin load run in sequence; the gate hook is the first of those that use it.
_of_this_load: list[_Parts] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_gates(registry: GateRegistry) -> None:
    """Register the gate of a SYNC_MASTER."""
    _of_this_load[:] = [_Parts()]
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
    parts = _of_this_load[0]
    of_election = parts.election, parts.election_requests, parts.election.copies
    for family in (parts.status, parts.acting, *of_election):
        for code, handler in handlers_of(family).items():
            registry.add(code, handler)
