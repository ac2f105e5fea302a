"""The objects that the plugin registers with one broker."""

from __future__ import annotations

from gantrymq.plugin.remoting import Handler, handlers_of, lazy_handlers
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.election.service import CHANGE_MASTER, ElectionService
from gantrymq_replication.gate import ElectedGate, ReplicaGate
from gantrymq_replication.master import MasterService
from gantrymq_replication.own_commits import OwnCommits
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.status import StatusService
from gantrymq_replication.tables import TablesService
from gantrymq_replication.traffic import Departures


class Parts:
    """The objects that the hooks of one plugin load register."""

    def __init__(self) -> None:
        self.gate, self.slave = ReplicaGate(), SlaveService()
        self.elected_gate = ElectedGate()
        self.election = ElectionService(self.elected_gate)
        self.acting = ActingService(self.slave)
        self.master = MasterService(self.gate, self.acting)
        self.election_requests = lazy_handlers([CHANGE_MASTER], self._load_election_requests)
        self.commits = OwnCommits()
        self.tables = TablesService(self._followed, self.commits, self._elected_id)
        self.election.on_follow = self.tables.followed_changed
        self.election.has_tables = lambda: self.tables.rounds > 0
        self.status = StatusService(self.slave, self.master, self.tables, self.acting, self.election)

    def _load_election_requests(self) -> dict[int, Handler]:
        from gantrymq_replication.election.requests import ElectionRequests

        return handlers_of(ElectionRequests(self.election, self._departures))

    def _departures(self) -> Departures | None:
        """Return why slaves of a master with a fixed role are gone; None from other brokers."""
        return self.master.replicas.departures if self.master.replicas is not None else None

    def _followed(self) -> str | None:
        """Return the broker address of the master whose tables are copied."""
        elected = self.election.elected
        if elected is not None and elected.enabled:
            return elected.copy.followed
        return self.slave.followed if self.acting.may_copy_tables() else None

    def _elected_id(self) -> int:
        """Return the id by which this broker asks its elected master for tables; 0 with fixed roles."""
        elected = self.election.elected
        return elected.election.own_id if elected is not None and elected.election is not None else 0
