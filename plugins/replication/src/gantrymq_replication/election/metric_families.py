"""Metrics of elected roles, read when they are exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.interfaces import MetricFamily
from gantrymq_replication.election.machine import Machine
from gantrymq_replication.election.service import ElectionService
from gantrymq_replication.election.sync_set import SyncSet
from gantrymq_replication.metric_families import CopyState, one

__all__ = ["ElectedCopies", "election_metrics"]

ROLES: Final = ("master", "fenced", "slave", "learner", "none")


class ElectedCopies:
    """`metric_families.CopyStates` of a broker with elected roles."""

    def __init__(self, election: ElectionService) -> None:
        self._election = election

    @property
    def _set(self) -> SyncSet | None:
        """The in-sync set of a master."""
        machine = self._election.machine
        return machine.set if machine is not None and machine.is_master else None

    def slaves(self) -> list[CopyState]:
        """See `CopyStates.slaves`."""
        found, end, now = self._set, self._election.log.end, self._election.now
        connected = [(each.address, each.slave) for each in self._election.slaves] if found is not None else []
        return [
            CopyState(address, end - follower.acked, follower.late_s(end, now))
            for address, slave in connected
            if found is not None
            and slave is not None
            and (follower := found.followers.get(slave.broker_id)) is not None
        ]

    @property
    def in_sync(self) -> int:
        """See `CopyStates.in_sync`: connected members of the set."""
        return 1 if self._set is None else self._set.present

    @property
    def wanted(self) -> int:
        """See `CopyStates.wanted`."""
        return 1 if self._set is None else self._election.rules.least_copies

    @property
    def lack(self) -> str:
        """See `CopyStates.lack`."""
        machine, found = self._election.machine, self._set
        if machine is None or found is None or found.enough:
            return ""
        return machine.problem(self._election.now)

    @property
    def sent_bytes(self) -> int:
        """See `CopyStates.sent_bytes`."""
        return self._election.port.sent_bytes

    @property
    def refused(self) -> int:
        """See `CopyStates.refused`."""
        return self._election.port.refusals.count

    @property
    def received_bytes(self) -> int:
        """See `CopyStates.received_bytes`."""
        return self._election.received_bytes

    @property
    def not_following(self) -> str | None:
        """See `CopyStates.not_following`."""
        if self._set is not None or self._election.followed is not None:
            return None
        return self._election.why_apart


def role_of(election: ElectionService) -> str:
    """Return the role of this broker, one of `ROLES`; a master that may not accept messages is fenced."""
    machine = election.machine
    if machine is not None and machine.is_master:
        return "master" if machine.leased(election.now) else "fenced"
    if machine is None or machine.own or machine.master is None:
        return "none"
    return "learner" if election.rules.learner else "slave"


def election_metrics(election: ElectionService) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register."""

    def role() -> MetricFamily:
        current = role_of(election)
        values: dict[tuple[str, ...], float] = {(each,): int(each == current) for each in ROLES}
        why: dict[tuple[str, ...], str] = (
            {(current,): election.why_apart} if current in ("fenced", "none") and election.why_apart else {}
        )
        text = "1 for the role of this broker; a master is fenced while it may accept no messages."
        return MetricFamily("gantrymq_election_role", text, ("role",), values, sentences=why)

    def epoch() -> MetricFamily:
        machine = election.machine
        text = "Newest epoch of the set that this broker knows."
        return one("gantrymq_election_epoch", text, 0 if machine is None else machine.epoch)

    def members() -> MetricFamily:
        return one("gantrymq_election_in_sync_brokers", "Size of the in-sync set.", len(_members(election.machine)))

    def confirm_lag() -> MetricFamily:
        text = "Bytes of the log after the confirm offset, which consumers do not see."
        lag = max(0, election.log.end - election.confirmed)
        return one("gantrymq_election_confirm_lag_bytes", text, lag)

    def elections() -> MetricFamily:
        text = "New masters and new epochs that this broker has seen since its start."
        return one("gantrymq_election_elections_total", text, election.seen.elections, counter=True)

    def without_master() -> MetricFamily:
        text = "Seconds since the start in which this broker knew no master, or was a master that is fenced."
        seconds = election.seen.without_master_s
        return one("gantrymq_election_without_master_seconds_total", text, seconds, counter=True)

    def engine_age() -> MetricFamily:
        text = "Seconds since the engine of elections answered, or since the start."
        return one("gantrymq_election_engine_silent_seconds", text, election.seen.silent_s(election.now))

    def engine_errors() -> MetricFamily:
        seen = election.seen
        values: dict[tuple[str, ...], float] = {("unreachable",): seen.unreachable, ("refused",): seen.refused}
        text = "Calls of the engine of elections since the start that had no answer, or were refused."
        return MetricFamily("gantrymq_election_engine_errors_total", text, ("kind",), values, counter=True)

    def lease() -> MetricFamily:
        machine = election.machine
        text = "Seconds until this master fences itself unless the engine answers; 0 on others."
        left = 0.0 if machine is None else machine.lease_left(election.now)
        return one("gantrymq_election_lease_left_seconds", text, left)

    return [role, epoch, members, confirm_lag, elections, without_master, engine_age, engine_errors, lease]


def _members(machine: Machine | None) -> frozenset[int]:
    if machine is None:
        return frozenset()
    return machine.set.members if machine.set is not None else machine.standing.members
