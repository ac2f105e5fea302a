"""Metrics of replication and of elections, read when they are exported. Fixed and elected roles have the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from gantrymq.plugin.interfaces import MetricFamily

if TYPE_CHECKING:
    from gantrymq_replication.election.elected_broker import ElectedBroker
    from gantrymq_replication.election.machine import Machine
    from gantrymq_replication.state import State

_T = TypeVar("_T")

_ROLES: Final = ("master", "fenced", "slave", "learner", "none")


@attrs.frozen
class _Metric(Generic[_T]):
    """A metric without labels, or with one."""

    name: str
    help: str
    value: Callable[[_T], float | Mapping[str, float]]  # with a label: by its values
    label: str = ""
    why: Callable[[_T], str] = lambda source: ""  # a sentence about values other than 0

    def read(self, source: Callable[[], _T]) -> MetricFamily:
        """Return the metric now."""
        found = source()
        value, why = self.value(found), self.why(found)
        values: dict[tuple[str, ...], float] = (
            {(label,): number for label, number in value.items()} if isinstance(value, Mapping) else {(): value}
        )
        return MetricFamily(
            self.name,
            self.help,
            (self.label,) if self.label else (),
            values,
            counter=self.name.endswith("_total"),
            sentences={labels: why for labels, number in values.items() if number} if why else {},
        )


_REPLICATION: Final[Sequence[_Metric[State]]] = (
    _Metric("gantrymq_replication_slaves", "Slaves that copy this master.", lambda state: len(state.slaves)),
    _Metric(
        "gantrymq_replication_in_sync_copies",
        "Copies of the log that are in sync, the master's included; 1 on a slave.",
        lambda state: state.in_sync,
    ),
    _Metric(
        "gantrymq_replication_wanted_copies",
        "Copies in sync that inSyncReplicas of a SYNC_MASTER and minInSyncReplicas ask for; 1 on a slave.",
        lambda state: state.wanted,
        why=lambda state: state.lack,
    ),
    _Metric(
        "gantrymq_replication_lag_bytes",
        "Bytes of the log that a slave has not acknowledged.",
        lambda state: {each.address: each.lag_bytes for each in state.slaves},
        label="slave",
    ),
    _Metric(
        "gantrymq_replication_lag_seconds",
        "Time since a slave had everything, or since it connected; 0 if it has everything.",
        lambda state: {each.address: each.late_s for each in state.slaves if each.late_s is not None},
        label="slave",
    ),
    _Metric(
        "gantrymq_replication_sent_bytes_total",
        "Bytes of the log sent to slaves since the start.",
        lambda state: state.sent_bytes,
    ),
    _Metric(
        "gantrymq_replication_refused_total",
        "Connections to the HA port refused since the start: logs that do not fit, wrong secrets, strangers.",
        lambda state: state.refused,
    ),
    _Metric(
        "gantrymq_replication_received_bytes_total",
        "Bytes received from masters since the start.",
        lambda state: state.received_bytes,
    ),
    _Metric(
        "gantrymq_replication_not_following",
        "1 for a slave that does not copy its master's log.",
        lambda state: state.not_following is not None,
        why=lambda state: f"this copy does not follow: {state.not_following}",
    ),
    _Metric(
        "gantrymq_replication_tables_not_copied",
        "1 for a slave that copies its master's log, but not its topics, groups and offsets.",
        lambda state: bool(state.tables_problem),
        why=lambda state: f"topics, groups and offsets of the master are not copied: {state.tables_problem}",
    ),
)

_ELECTION: Final[Sequence[_Metric[ElectedBroker]]] = (
    _Metric(
        "gantrymq_election_role",
        "1 for the role of this broker; a master is fenced while it may accept no messages.",
        lambda election: {each: int(each == _role_of(election)) for each in _ROLES},
        label="role",
        why=lambda election: election.why_apart if _role_of(election) in ("fenced", "none") else "",
    ),
    _Metric(
        "gantrymq_election_epoch",
        "Newest epoch of the set that this broker knows.",
        lambda election: 0 if election.machine is None else election.machine.epoch,
    ),
    _Metric(
        "gantrymq_election_in_sync_brokers",
        "Size of the in-sync set.",
        lambda election: len(_members(election.machine)),
    ),
    _Metric(
        "gantrymq_election_confirm_lag_bytes",
        "Bytes of the log after the confirm offset, which consumers do not see.",
        lambda election: max(0, election.log.end - election.confirmed),
    ),
    _Metric(
        "gantrymq_election_elections_total",
        "New masters and new epochs that this broker has seen since its start.",
        lambda election: election.counts.elections,
    ),
    _Metric(
        "gantrymq_election_without_master_seconds_total",
        "Seconds since the start in which this broker knew no master, or was a master that is fenced.",
        lambda election: election.counts.without_master_s,
    ),
    _Metric(
        "gantrymq_election_engine_silent_seconds",
        "Seconds since the engine of elections answered, or since the start.",
        lambda election: election.counts.silent_s(election.now),
    ),
    _Metric(
        "gantrymq_election_engine_errors_total",
        "Calls of the engine of elections since the start that had no answer, or were refused.",
        lambda election: {"unreachable": election.counts.unreachable, "refused": election.counts.refused},
        label="kind",
    ),
    _Metric(
        "gantrymq_election_lease_left_seconds",
        "Seconds until this master fences itself unless the engine answers; 0 on others.",
        lambda election: 0.0 if election.machine is None else election.machine.lease_left(election.now),
    ),
)


def replication_metrics(state: Callable[[], State]) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register; *state* reads the state of replication."""
    return [partial(each.read, state) for each in _REPLICATION]


def election_metrics(election: ElectedBroker) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register."""
    return [partial(each.read, lambda: election) for each in _ELECTION]


def _role_of(election: ElectedBroker) -> str:
    """Return the role of this broker, one of `_ROLES`; a master that may not accept messages is fenced."""
    machine = election.machine
    if machine is not None and machine.is_master:
        return "master" if machine.leased(election.now) else "fenced"
    if machine is None or machine.own or machine.master is None:
        return "none"
    return "learner" if election.rules.learner else "slave"


def _members(machine: Machine | None) -> frozenset[int]:
    if machine is None:
        return frozenset()
    return machine.set.members if machine.set is not None else machine.standing.members
