"""Replication within a broker name, from the answers of its brokers: who copies whom, how far, and why not.

A master knows connections, by the addresses from which they come; name servers know slaves, by the addresses at which
they serve clients. A slave of GantryMQ reports the address of its connection, an elected master the ids of its slaves.
Others are found by their host, if there is one slave and one connection of that host.

RocketMQ's brokers report less: before 5.0 the ends of their logs only, later the connections of a master, without
times and reasons. Unknown values are None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import ConnectedSlave, ElectionState, HaStatus, LostSlave, MasterConnection
from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.plugin.commands import local_time

_MASTER_ID: Final = 0
_ACTS: Final = "acts for its missing master: delivers what waits, through other broker names"
_LOST_MS: Final = 24 * 3600 * 1000  # how long a lost slave is shown
_NOT_TOLD: Final = "; the master's log has the reason"
NO_MASTER: Final = "no master is registered with the name servers, so messages cannot be sent to this broker name"
TWO_MASTERS: Final = (
    "two brokers are registered with id 0: clients use the one that registered last, and miss what the other one stores"
)
_NOT_CONNECTED: Final = "the master has no connection of it"
_FORGET: Final = "'gantrymq cluster forget' removes it if it is gone for good"
_STILL_CONNECTED: Final = "the master still has a connection of it, so that sends may wait for it until that ends"


@attrs.frozen(kw_only=True)
class Answer:
    """The answer of one broker."""

    broker_id: int
    address: str
    problem: str = ""  # why it did not
    end: int | None = None  # of its log
    ha: HaStatus | None = None  # None: it does not report it

    @property
    def slaves(self) -> Sequence[ConnectedSlave]:
        """The slaves of a master."""
        return self.ha.slaves if self.ha is not None else ()

    @property
    def lost_slaves(self) -> Sequence[LostSlave]:
        """Why a master lost slaves."""
        return self.ha.lost_slaves if self.ha is not None else ()

    @property
    def connection(self) -> MasterConnection | None:
        """The connection of a slave; None if it does not report it."""
        return self.ha.connection if self.ha is not None else None

    @property
    def election(self) -> ElectionState | None:
        """Its report on the election of its master; None if roles are fixed, or without a report."""
        return self.ha.election if self.ha is not None else None

    @property
    def local_address(self) -> str | None:
        """The address of a slave's connection to its master; empty without one, None if it does not report it."""
        return self.connection.local_address if self.connection is not None else None

    @property
    def why_not(self) -> str | None:
        """Why a slave does not follow; empty while it does, None if it does not report it."""
        election = self.election
        if election is not None and election.apart:
            return f"it takes no part in the election: {election.apart}"
        if election is not None and election.master is None:
            return election.problem or "there is no master"
        return self.connection.problem if self.connection is not None else None


@attrs.frozen(kw_only=True)
class Copy:
    """One broker of a broker name."""

    role: str  # master, slave, or acting: a slave that acts for its missing master
    id: int | None  # None: a slave that is not registered with the name servers
    address: str  # empty: a master that is not registered
    end: int | None
    lag_bytes: int | None = None
    lag_s: float | None = None
    in_sync: bool | None = None
    following: bool | None = None  # whether a slave copies its master
    tables_copied: bool | None = None  # whether a slave that follows copies topics, groups and offsets too
    in_sync_copies: int | None = None  # of a master, its own included
    wanted_copies: int | None = None
    answers: bool = True  # whether it answered this status
    problem: str | None = None
    epoch: int | None = None  # of an elected master; of its slaves the newest that they know
    in_sync_set: tuple[int, ...] | None = None  # of an elected master: the ids of the in-sync set
    elected_id: int | None = None  # in the set: a master's id there is not 0
    learner: bool = False  # whether it is never a member of the in-sync set

    @property
    def lacking(self) -> bool:
        """Whether it is silent, or known not to follow or to be in sync; of a master: silent, or too few in sync."""
        if self.role == "master":
            return bool(self.problem)
        return not self.answers or False in (self.following, self.in_sync, self.tables_copied)


def healthy(copies: Sequence[Copy]) -> bool:
    """Return whether no copy lacks anything as far as is known."""
    return not any(each.lacking for each in copies)


async def ask_copies(
    admin: Admin,
    addresses: Mapping[int, str],
    now_ms: int,
    rivals: Sequence[str] = (),
    silent: Mapping[str, str] | None = None,
) -> list[Copy]:
    """Ask the brokers of one broker name, by id, and return master and slaves.

    Args:
        admin: started.
        addresses: of the brokers, by id.
        now_ms: wall time.
        rivals: other brokers that register as the master (`BrokerAddresses.rivals`).
        silent: why brokers did not answer just now, by address; they are not asked again.
    """
    asked = partial(_answer, admin, silent or {})
    answers = await asyncio.gather(*(asked(*each) for each in sorted(addresses.items())))
    others = await asyncio.gather(*(asked(_MASTER_ID, each) for each in rivals))
    return copies_of(answers, now_ms) + [_rival(each, addresses.get(_MASTER_ID, "")) for each in others]


def _rival(other: Answer, master: str) -> Copy:
    problem = "; ".join(filter(None, (f"{TWO_MASTERS} (also {master}); stop one of them", other.problem)))
    return Copy(role="master", id=_MASTER_ID, address=other.address, end=other.end, problem=problem)


async def _answer(admin: Admin, silent: Mapping[str, str], broker_id: int, address: str) -> Answer:
    if address in silent:
        return Answer(broker_id=broker_id, address=address, problem=silent[address])
    try:
        ha = await _ha_status(admin, address)
        end = ha.max_offset if ha is not None and broker_id == _MASTER_ID else 0  # at the moment of the slaves' offsets
        return Answer(broker_id=broker_id, address=address, end=end or await _end(admin, address), ha=ha)
    except GantryError as problem:
        return Answer(broker_id=broker_id, address=address, problem=str(problem))


async def _end(admin: Admin, address: str) -> int | None:
    """Return the end of a broker's log; None if the broker does not report it."""
    try:
        return int((await admin.runtime_info(address)).get("commitLogMaxOffset", ""))
    except ValueError:
        return None


async def _ha_status(admin: Admin, address: str) -> HaStatus | None:
    """Return the state of a broker; None from brokers before 5.0."""
    try:
        return await admin.ha_status(address)
    except BrokerRefused:
        return None


def copies_of(answers: Sequence[Answer], now_ms: int) -> list[Copy]:
    """Return master and slaves of one broker name, and slaves that only the master knows, or lost lately.

    The master is the first; without one, its row has no address.
    """
    master = next((each for each in answers if each.broker_id == _MASTER_ID), None)
    slaves = [each for each in answers if each.broker_id != _MASTER_ID]
    connections = master.slaves if master is not None else ()
    found = _matched(connections, slaves)
    known = {connection.address for connection in found.values()}
    rest = [each for each in connections if each.address not in known]
    rows = [_master(master) if master is not None else _no_master(slaves)]
    rows += [_slave(each, found.get(each.address), master, rest) for each in slaves]
    rows += [_unregistered(each) for each in rest]
    hosts = {each.address for each in rows if each.role != "master"} | {each.address for each in connections}
    return rows + _lost(master, set(map(_host, hosts)), now_ms) + _away(master, answers, now_ms)


def _away(master: Answer | None, answers: Sequence[Answer], now_ms: int) -> list[Copy]:
    """Return slaves that an elected master misses, and that are not registered."""
    if master is None or master.election is None:
        return []
    known = {each.election.own_id if each.election is not None else each.broker_id for each in answers}
    problem = f"not registered with the name servers; {_NOT_CONNECTED} since"
    return [
        Copy(
            role="slave",
            id=None,
            address=f"broker id {broker_id}",
            end=None,
            following=False,
            problem=f"{problem} {local_time(at_ms)}; {_FORGET}",
            elected_id=broker_id,
        )
        for broker_id, at_ms in master.election.away_since_ms.items()
        if broker_id not in known and now_ms - at_ms < _LOST_MS
    ]


def _matched(connections: Sequence[ConnectedSlave], slaves: Sequence[Answer]) -> dict[str, ConnectedSlave]:
    """Return the connections of slaves, by the address of the slave."""
    by_address = {each.address: each for each in connections}
    found = {}
    slaves = [each for each in slaves if each.election is None or not each.election.apart]  # perhaps with another's id
    for slave in slaves:
        own_id = slave.election.own_id if slave.election is not None else slave.broker_id
        of_id = next((each for each in by_address.values() if each.broker_id == own_id), None)
        if of_id is not None:
            found[slave.address] = by_address.pop(of_id.address)
    for slave in slaves:
        if slave.address in found:
            continue
        if connection := by_address.pop(slave.local_address or "", None):
            found[slave.address] = connection
    for slave in slaves:
        if slave.address not in found and slave.local_address != "":  # empty: it has no connection
            host = _host(slave.address)
            others = [each for each in slaves if each.address not in found and _host(each.address) == host]
            of_host = [address for address in by_address if _host(address) == host]
            if len(others) == len(of_host) == 1:
                found[slave.address] = by_address.pop(of_host[0])
    return found


def _no_master(slaves: Sequence[Answer]) -> Copy:
    """Return the row of a missing master, with the reports of slaves on its election."""
    told = max((each.election for each in slaves if each.election), key=lambda each: each.epoch, default=None)
    problem = NO_MASTER if told is None else f"{NO_MASTER}: {told.apart or told.problem}"
    return Copy(role="master", id=_MASTER_ID, address="", end=None, problem=problem)


def _master(master: Answer) -> Copy:
    if master.problem:
        return Copy(
            role="master", id=_MASTER_ID, address=master.address, end=None, answers=False, problem=master.problem
        )
    count = wanted = problem = None
    if master.ha is not None:
        count, wanted = 1 + master.ha.in_sync_slaves, master.ha.wanted_copies
        if (election := master.election) is not None:
            wanted, problem = election.least_copies, election.problem or election.data_lost or None
        elif wanted is not None and count < wanted:
            problem = f"copies in sync: {count}, fewer than the {wanted} that its settings ask for"
    row = Copy(
        role="master",
        id=_MASTER_ID,
        address=master.address,
        end=master.end,
        in_sync_copies=count,
        wanted_copies=wanted,
        problem=problem,
    )
    return _elected(row, master)


def _elected(row: Copy, answer: Answer) -> Copy:
    """Add the report of a broker on the election."""
    if (election := answer.election) is None:
        return row
    row = attrs.evolve(row, epoch=election.epoch, elected_id=election.own_id or None, learner=election.learner)
    return attrs.evolve(row, in_sync_set=election.in_sync) if row.role == "master" else row


def _slave(
    slave: Answer, connection: ConnectedSlave | None, master: Answer | None, rest: Sequence[ConnectedSlave]
) -> Copy:
    row = _elected(Copy(role="slave", id=slave.broker_id, address=slave.address, end=slave.end), slave)
    client = slave.connection
    if client is not None and client.acting:
        waiting = client.acting_problem
        problem = f"acts for its missing master, but messages wait: {waiting}" if waiting else _ACTS
        return attrs.evolve(row, role="acting", problem="; ".join(filter(None, (problem, _settings(client)))))
    if connection is not None:
        row = _with_connection(row, connection)
    following, problem = _following(slave, connection, master, rest)
    if connection is None and master is not None and master.end is not None and slave.end is not None:
        lag = master.end - slave.end
        if following is not False:  # the ends are of different moments
            row = attrs.evolve(row, lag_bytes=max(0, lag), lag_s=None if lag > 0 else 0.0)
        elif lag >= 0:  # a longer log is a different one
            row = attrs.evolve(row, lag_bytes=lag)
    copied, tables = None, ""
    if following and client is not None and client.tables_problem is not None:
        copied = not client.tables_problem
        tables = "" if copied else f"topics, groups and offsets are not copied: {client.tables_problem}"
    told = "; ".join(filter(None, (problem or row.problem, tables, _settings(client)))) or None
    return attrs.evolve(row, following=following, answers=not slave.problem, tables_copied=copied, problem=told)


def _settings(client: MasterConnection | None) -> str:
    """Return a problem text about settings of other servers that this slave needs to act for its master."""
    return f"settings for acting masters: {client.acting_settings}" if client and client.acting_settings else ""


def _with_connection(row: Copy, connection: ConnectedSlave) -> Copy:
    """Add the report of the master on a connection."""
    lag, late_ms, problem = max(0, connection.lag_bytes), connection.late_ms, None
    late_s = late_ms / 1000 if late_ms is not None else None if lag else 0.0
    if connection.learner and row.learner:
        return attrs.evolve(row, lag_bytes=lag, lag_s=late_s, following=True, problem="a learner: never in sync")
    if not connection.in_sync:
        since = f", and did not have everything for {late_s:.0f} s" if late_s else ""
        problem = (
            f"not in sync: it is {lag} bytes behind{since}"
            if lag
            else "not in sync yet: it has everything, and counts again with its next report, within seconds"
        )
    return attrs.evolve(
        row,
        end=connection.acked_offset if row.end is None else row.end,
        lag_bytes=lag,
        lag_s=late_s,
        in_sync=connection.in_sync,
        following=True,
        problem=problem,
    )


def _following(
    slave: Answer, connection: ConnectedSlave | None, master: Answer | None, rest: Sequence[ConnectedSlave]
) -> tuple[bool | None, str]:
    """Return whether a slave follows, and why not."""
    if slave.problem:
        if connection is not None:
            return None, f"{slave.problem}; {_STILL_CONNECTED}"
        return False, "; ".join(filter(None, (slave.problem, _departure(slave, master))))
    if own := slave.why_not:
        told = _departure(slave, master) if own.endswith(_NOT_TOLD) else ""
        return False, f"{own.removesuffix(_NOT_TOLD)}; {told}" if told else own
    client = slave.connection
    if connection is None and client is not None and own is not None and master is not None and master.ha and not rest:
        return False, f"it follows {client.master_address}, which is not this master: {_NOT_CONNECTED}"
    if connection is not None or own is not None:
        return True, ""
    if master is None:
        return None, "no master is registered"
    if master.problem or master.ha is None:
        return None, "" if master.problem else "neither it nor its master tells whether it follows"
    if rest:
        return None, "unknown which of the connections of the master is its"
    return False, _departure(slave, master) or f"{_NOT_CONNECTED} since the master's start"


def _departure(slave: Answer, master: Answer | None) -> str:
    """Return when and why the master lost its last connection of the slave; empty if it does not say."""
    away = master.election.away_since_ms if master is not None and master.election is not None else {}
    if (since_ms := away.get(slave.broker_id)) is not None:
        return f"{_NOT_CONNECTED} since {local_time(since_ms)}"
    host = _host(slave.local_address or slave.address)
    for each in master.lost_slaves if master is not None else ():
        if each.host == host:
            return _lost_at(each)
    return ""


def _unregistered(connection: ConnectedSlave) -> Copy:
    row = _with_connection(Copy(role="slave", id=None, address=connection.address, end=None), connection)
    return attrs.evolve(row, problem=row.problem or "no slave that is registered with the name servers is known by it")


def _lost(master: Answer | None, hosts: Collection[str], now_ms: int) -> list[Copy]:
    """Return slaves that the master lost, from hosts without another slave."""
    return [
        Copy(
            role="slave",
            id=None,
            address=each.host,
            end=None,
            following=False,
            problem=f"not registered with the name servers; {_lost_at(each)}; {_FORGET}",
        )
        for each in (master.lost_slaves if master is not None else ())
        if each.reported and each.host not in hosts and now_ms - each.at_ms < _LOST_MS
    ]


def _lost_at(lost: LostSlave) -> str:
    return f"the master lost the connection at {local_time(lost.at_ms)}: {lost.problem}"


def _host(address: str) -> str:
    return address.rpartition(":")[0]
