"""The state of replication on one broker, read once and reported as JSON (907) and as metrics.

GantryMQ's own members of 907, which RocketMQ's tools ignore:

    wantedCopies, inSyncCopies     of a master with a fixed role, its own copy included
    haConnectionInfo[].lateMillis  how long ago the slave had everything; 0 if it has it, null if that is not known
    haConnectionInfo[].brokerId, learner   of an elected master's slaves
    haDepartures[]                 host, time and reason of ended connections; whether a report had come
    haClientRuntimeInfo.acting     whether a slave acts for its missing master
    haClientRuntimeInfo.actingProblem  why messages that it should store wait; empty if they do not
    haClientRuntimeInfo.actingSettings  settings for acting that name servers or the master lack; or empty
    haClientRuntimeInfo.problem    why a slave does not follow; empty while it does
    haClientRuntimeInfo.tablesProblem  why a slave that follows does not copy topics, groups and offsets; or empty
    haClientRuntimeInfo.localAddr  the address of its connection, by which its master knows it
    election.engine           controller or etcd
    election.ownId, epoch     this broker's id in the set, and the newest epoch that it knows
    election.master           the id of the master; null if there is none
    election.knownSince       wall time in ms since which this broker knows this epoch and this master
    election.masterAddr       of the master, for clients; empty if it is not known
    election.syncStateSet     as this broker knows it
    election.syncStateSetEpoch
    election.away             of a master: slaves that are not connected, and since when (brokerId, timestamp in ms)
    election.confirmed        log offset up to which the whole set has the log
    election.problem          why this broker accepts no messages; empty if it does
    election.dataLost         that the engine has lost its data; empty if it has not
    election.apart            why this broker takes no part in the election; empty if it does
    election.unelectable      why it must not be the master; empty if it may
    election.fencing, minInSyncReplicas, leaseMillis, learner   its settings

Source: apache/rocketmq store/.../ha/DefaultHAService.java (getRuntimeInfo), remoting/.../body/HARuntimeInfo.java,
remoting/.../protocol/EpochEntryCache.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Role
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.copying import MasterConnection
from gantrymq_replication.election.elected_broker import ElectedBroker
from gantrymq_replication.election.epochs import NO_END
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.master import MasterService
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService
from gantrymq_replication.traffic import Departure


@attrs.frozen(kw_only=True)
class SlaveState:
    """A slave that is connected to this master."""

    address: str
    acked: int
    next_offset: int  # of the next transfer
    lag_bytes: int
    late_s: float | None  # since it had everything, or since it connected; None if that is not known
    in_sync: bool
    bytes_per_second: int
    broker_id: int | None = None  # of a set with elected masters
    learner: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return RocketMQ's HAConnectionRuntimeInfo."""
        elected = {} if self.broker_id is None else {"brokerId": self.broker_id, "learner": self.learner}
        return {
            "addr": self.address,
            "diff": self.lag_bytes,
            "inSync": self.in_sync,
            "lateMillis": None if self.late_s is None else round(1000 * self.late_s),
            "slaveAckOffset": self.acked,
            "transferFromWhere": self.next_offset,
            "transferredByteInSecond": self.bytes_per_second,
            **elected,
        }


@attrs.frozen(kw_only=True)
class State:
    """The copies of one broker's log, and its own copy of a master's."""

    master: bool
    end: int  # of the log
    slaves: Sequence[SlaveState] = ()  # connected; none on a slave
    wanted: int = 1  # copies in sync that the settings ask for; 1 on a slave
    lack: str = ""  # why acknowledgements cannot wait for slaves; empty if they can, or do not
    departures: Sequence[Departure] | None = None  # None: this broker keeps none
    sent_bytes: int = 0  # of the log, to slaves, since the start
    refused: int = 0  # connections to the HA port, since the start
    received_bytes: int = 0  # from masters, since the start
    not_following: str | None = None  # why this slave does not copy its master's log; None if it does, and on a master
    tables_problem: str = ""  # why a slave that follows does not copy topics, groups and offsets
    copying: dict[str, Any]  # RocketMQ's HAClientRuntimeInfo
    election: dict[str, Any] | None = None  # None: roles are fixed

    @property
    def in_sync(self) -> int:
        """Copies in sync, this broker's included."""
        return 1 + sum(each.in_sync for each in self.slaves)

    def as_json(self) -> dict[str, Any]:
        """Return RocketMQ's HARuntimeInfo, with GantryMQ's own members."""
        found: dict[str, Any] = {
            "haClientRuntimeInfo": self.copying,
            "haConnectionInfo": [each.as_json() for each in self.slaves],
            "inSyncSlaveNums": self.in_sync - 1,
            "master": self.master,
            "masterCommitLogMaxOffset": self.end if self.master else 0,
        }
        if self.departures is not None:
            departures = [
                {"host": each.host, "timestamp": each.at_ms, "problem": each.problem, "reported": each.reported}
                for each in self.departures
            ]
            found |= {"haDepartures": departures, "inSyncCopies": self.in_sync, "wantedCopies": self.wanted}
        return found if self.election is None else {**found, "election": self.election}


# --- fixed roles ------------------------------------------------------------------------------------------------------


def fixed_state(
    broker: Broker, master: MasterService, slave: SlaveService, acting: ActingService, tables: TablesService
) -> State:
    """Return the state of a broker whose role is a setting."""
    end, now = broker.store.state().max_log_offset, broker.world.clock.monotonic()
    common: dict[str, Any] = {
        "end": end,
        "sent_bytes": 0 if master.port is None else master.port.sent_bytes,
        "refused": 0 if master.port is None else master.port.refusals.count,
        "received_bytes": slave.received_bytes,
        "tables_problem": tables.missing,
    }
    connection = slave.copying
    copying = _copying(connection, slave.read_at_ms, now)
    if broker.role.current is not Role.MASTER:
        copying |= {
            "acting": broker.role.current is Role.ACTING_MASTER,
            "actingProblem": acting.problem,
            "actingSettings": acting.settings_problem,
            "localAddr": connection.local_address if connection is not None else "",
            "masterAddr": slave.master_address,
            "maxOffset": end,
            "problem": slave.problem,
            "tablesProblem": tables.missing,
        }
        not_following = None if slave.following else slave.problem
        return State(master=False, copying=copying, not_following=not_following, **common)
    if (replicas := master.replicas) is None:
        return State(master=True, copying=copying, lack=master.lack, **common)
    in_sync = replicas.in_sync(end, now)
    slaves = [
        SlaveState(
            address=each.address,
            acked=each.acked,
            next_offset=each.next_offset,
            lag_bytes=end - each.acked,
            late_s=each.late_s(end, now),
            in_sync=each in in_sync,
            bytes_per_second=each.traffic.per_second(now),
        )
        for each in replicas.all
    ]
    return State(
        master=True,
        slaves=slaves,
        wanted=replicas.wanted,
        lack=master.lack,
        departures=replicas.departures.all,
        copying=copying,
        **common,
    )


def _copying(connection: MasterConnection | None, read_at_ms: int, now: float) -> dict[str, Any]:
    """Return the members of HAClientRuntimeInfo that every broker has."""
    return {
        "lastReadTimestamp": read_at_ms,
        "lastWriteTimestamp": 0 if connection is None else connection.wrote_at_ms,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0 if connection is None else connection.traffic.per_second(now),
    }


# --- elected roles ----------------------------------------------------------------------------------------------------


def elected_state(broker: Broker, election: ElectedBroker, tables: TablesService) -> State:
    """Return the state of a broker whose role is elected."""
    master, machine = broker.role.current is Role.MASTER, election.machine
    held = machine.set if machine is not None and machine.is_master else None
    end, now = broker.store.state().max_log_offset, election.now
    copying = {
        **_copying(election.copy.connection, election.copy.read_at_ms, now),
        "masterAddr": "" if master else election.copy.ha_address,
        "maxOffset": 0 if master else end,
        "problem": "" if master else election.why_apart,
        "tablesProblem": tables.missing,
    }
    lacks = machine is not None and held is not None and not held.enough
    return State(
        master=master,
        end=end,
        slaves=_slaves(election, end, now) if master else (),
        wanted=1 if held is None else election.rules.least_copies,
        lack=machine.problem(now) if machine is not None and lacks else "",
        sent_bytes=election.port.sent_bytes,
        refused=election.port.refusals.count,
        received_bytes=election.copy.received_bytes,
        not_following=None if held is not None or election.copy.followed is not None else election.why_apart,
        tables_problem=tables.missing,
        copying=copying,
        election=election_members(election),
    )


def _slaves(election: ElectedBroker, end: int, now: float) -> list[SlaveState]:
    machine = election.machine
    held = machine.set if machine is not None else None
    followers, members = ({}, frozenset[int]()) if held is None else (held.followers, held.members)
    return [
        SlaveState(
            address=each.address,
            acked=each.side.acked,
            next_offset=each.side.next_offset,
            lag_bytes=end - each.side.acked,
            late_s=None if (follower := followers.get(slave.broker_id)) is None else follower.late_s(end, now),
            in_sync=slave.broker_id in members,
            bytes_per_second=each.traffic.per_second(now),
            broker_id=slave.broker_id,
            learner=slave.learner,
        )
        for each in election.port.connections
        if (slave := each.slave) is not None
    ]


def election_members(election: ElectedBroker) -> dict[str, Any]:
    """Return GantryMQ's member ``election`` of 907; before this broker has an id in its set, it knows no master."""
    machine, running, rules = election.machine, election.election, election.rules
    standing = Standing(None, 0, frozenset(), 0) if machine is None else machine.standing
    held = None if machine is None else machine.set
    away = election.away.since_ms if machine is not None and machine.is_master else {}
    own_id = 0 if machine is None or running is None else running.own_id
    apart = "" if running is None else running.problem
    own = machine is not None and machine.own
    return {
        "engine": rules.engine,
        "fencing": rules.fencing.value,
        "minInSyncReplicas": rules.least_copies,
        "leaseMillis": round(1000 * election.engine.terms.lease_s),
        "learner": rules.learner,
        "apart": apart,
        "knownSince": 0 if running is None else running.known_since_ms,
        "ownId": own_id,
        "epoch": 0 if machine is None else machine.epoch,
        "master": None if machine is None else machine.master,
        "masterAddr": election.broker.registration.address if own else standing.address,
        "syncStateSet": sorted(standing.members if held is None else held.members),
        "syncStateSetEpoch": standing.set_epoch if held is None else held.set_epoch,
        "away": [{"brokerId": broker_id, "timestamp": at_ms} for broker_id, at_ms in away.items()],
        "confirmed": 0 if machine is None else election.confirmed,
        "dataLost": "" if machine is None else machine.data_lost,
        "problem": apart if machine is None else machine.problem(election.now),
        "unelectable": "" if machine is None else machine.unelectable,
    }


def epoch_cache(election: ElectedBroker) -> dict[str, Any]:
    """Return RocketMQ's EpochEntryCache, whose last epoch has no end."""
    registration, entries = election.broker.registration, election.log.epochs.entries
    ends = [*(each.start for each in entries[1:]), NO_END][: len(entries)]  # an empty log has no epochs
    return {
        "brokerId": registration.broker_id,
        "brokerName": registration.broker_name,
        "clusterName": registration.cluster,
        "epochList": [
            {"endOffset": end, "epoch": each.epoch, "startOffset": each.start}
            for each, end in zip(entries, ends, strict=True)
        ],
        "maxOffset": election.log.end,
    }
