"""Replication: what a master says of its slaves, a slave of its connection, and elections and epochs of masters.

Members that only brokers of GantryMQ send are None in the answers of RocketMQ.

Sources: apache/rocketmq remoting/.../protocol/body/HARuntimeInfo.java, EpochEntryCache.java,
store/.../ha/DefaultHAService.java (getRuntimeInfo).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq.client.admin.errors import parsing
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.remoting.codes import RequestCode

_OPEN_END: Final = 2**63 - 1  # Java's end of the newest epoch


@attrs.frozen(kw_only=True)
class ConnectedSlave:
    """A slave, as its master knows it."""

    address: str  # of its HA connection, which is not the one at which it serves clients
    acked_offset: int
    lag_bytes: int  # negative: its log is longer than the master's
    in_sync: bool
    next_offset: int  # of what is sent to it next
    bytes_per_s: int
    late_ms: int | None  # how long ago it had everything; GantryMQ only
    broker_id: int | None = None  # in a set whose master is elected; GantryMQ only
    learner: bool = False  # whether it is never a member of the in-sync set; GantryMQ only


@attrs.frozen(kw_only=True)
class LostSlave:
    """Why the last connection from a host to a master ended; GantryMQ only."""

    host: str
    at_ms: int
    problem: str
    reported: bool  # whether it was a slave that had reported


@attrs.frozen(kw_only=True)
class MasterConnection:
    """The connection of a slave to its master."""

    master_address: str  # HA address; empty: it knows none
    max_offset: int  # end of the slave's log
    bytes_per_s: int
    read_at_ms: int
    wrote_at_ms: int
    local_address: str | None  # its end of the connection, empty without one; GantryMQ only
    problem: str | None  # why it does not follow, empty while it does; GantryMQ only
    tables_problem: str | None = None  # why it copies the log, but no topics and offsets; GantryMQ only
    acting: bool = False  # whether it acts for its missing master; GantryMQ only
    acting_problem: str = ""  # why messages that it should deliver wait; empty if they do not
    acting_settings: str = ""  # what name servers or its master have not set, so that it cannot act well


@attrs.frozen(kw_only=True)
class ElectionState:
    """What a broker knows of the election of its master; GantryMQ only."""

    engine: str  # what elects: controller or etcd
    own_id: int  # in the set; 0: it has none yet
    epoch: int  # the newest one that it knows
    master: int | None  # id of the master; None: there is none
    master_address: str  # for clients; empty: it is not known
    known_since_ms: int  # since when this broker knows this epoch and this master
    in_sync: tuple[int, ...]  # ids of the in-sync set, the master's included
    in_sync_epoch: int  # number of the set
    confirmed: int  # log offset up to which the whole set has the log, as far as this broker knows
    problem: str  # why it accepts no messages; empty if it does
    apart: str  # why it takes no part in the election; empty if it does
    unelectable: str  # why it must not be the master; empty if it may
    fencing: str
    least_copies: int  # minInSyncReplicas
    lease_ms: int  # a master that is silent for this long is replaced
    learner: bool  # whether it is never a member of the set
    data_lost: str = ""  # that the engine has lost its data; empty if it has not
    away_since_ms: Mapping[int, int] = attrs.field(factory=dict)  # slaves that a master misses: ids, and wall time


@attrs.frozen(kw_only=True)
class HaStatus:
    """The state of replication of one broker."""

    master: bool
    max_offset: int  # end of a master's log; 0 from a slave
    in_sync_slaves: int
    slaves: tuple[ConnectedSlave, ...]
    lost_slaves: tuple[LostSlave, ...]
    wanted_copies: int | None  # that its settings ask for, its own included; GantryMQ only
    connection: MasterConnection | None  # None from a master
    election: ElectionState | None = None  # None: its role is fixed, or it does not tell it


@attrs.frozen
class Epoch:
    """A part of a log that one elected master wrote."""

    epoch: int
    start_offset: int
    end_offset: int | None  # None: the newest


@attrs.frozen(kw_only=True)
class BrokerEpochs:
    """The epochs in a broker's log, in order."""

    cluster: str
    broker: str
    broker_id: int
    max_offset: int
    epochs: tuple[Epoch, ...]


class ReplicationCalls(AdminRequests):
    """Part of `Admin`. Calls raise BrokerRefused with the broker's code, or ConnectFailed, ConnectionLost or
    CallTimeout without a response.
    """

    async def ha_status(self, address: str) -> HaStatus:
        """Return the slaves of a master, or the connection of a slave.

        Raises:
            RequestNotServed: the broker is older than RocketMQ 5.0.
        """
        found = await self.request_json(address, RequestCode.GET_BROKER_HA_STATUS, what="replication")
        with parsing(f"the replication of {address}"):
            return _status(found)

    async def epochs(self, address: str) -> BrokerEpochs:
        """Return the epochs in the log of a broker whose masters are elected.

        Raises:
            BrokerRefused: code 1, its roles are fixed; or RequestNotServed, it is older than RocketMQ 5.0.
        """
        found = await self.request_json(address, RequestCode.GET_BROKER_EPOCH_CACHE, what="epochs")
        with parsing(f"the epochs of {address}"):
            return BrokerEpochs(
                cluster=str(found["clusterName"]),
                broker=str(found["brokerName"]),
                broker_id=int(found["brokerId"]),
                max_offset=int(found["maxOffset"]),
                epochs=tuple(_epoch(each) for each in found["epochList"]),
            )


def _status(members: Mapping[str, Any]) -> HaStatus:
    master, wanted = bool(members["master"]), members.get("wantedCopies")
    return HaStatus(
        master=master,
        max_offset=int(members.get("masterCommitLogMaxOffset") or 0),
        in_sync_slaves=int(members.get("inSyncSlaveNums") or 0),
        slaves=tuple(_slave(each) for each in members.get("haConnectionInfo") or ()),
        lost_slaves=tuple(_lost(each) for each in members.get("haDepartures") or ()),
        wanted_copies=None if wanted is None else int(wanted),
        connection=None if master else _connection(members.get("haClientRuntimeInfo") or {}),
        election=_election(members["election"]) if members.get("election") else None,
    )


def _slave(members: Mapping[str, Any]) -> ConnectedSlave:
    late_ms, broker_id = members.get("lateMillis"), members.get("brokerId")
    return ConnectedSlave(
        address=str(members["addr"]),
        acked_offset=int(members.get("slaveAckOffset") or 0),
        lag_bytes=int(members.get("diff") or 0),
        in_sync=bool(members.get("inSync")),
        next_offset=int(members.get("transferFromWhere") or 0),
        bytes_per_s=int(members.get("transferredByteInSecond") or 0),
        late_ms=None if late_ms is None else int(late_ms),
        broker_id=None if broker_id is None else int(broker_id),
        learner=bool(members.get("learner")),
    )


def _lost(members: Mapping[str, Any]) -> LostSlave:
    return LostSlave(
        host=str(members["host"]),
        at_ms=int(members["timestamp"]),
        problem=str(members.get("problem") or ""),
        reported=bool(members.get("reported")),
    )


def _connection(members: Mapping[str, Any]) -> MasterConnection:
    local, problem, tables = (members.get(name) for name in ("localAddr", "problem", "tablesProblem"))
    return MasterConnection(
        master_address=str(members.get("masterAddr") or ""),
        max_offset=int(members.get("maxOffset") or 0),
        bytes_per_s=int(members.get("transferredByteInSecond") or 0),
        read_at_ms=int(members.get("lastReadTimestamp") or 0),
        wrote_at_ms=int(members.get("lastWriteTimestamp") or 0),
        local_address=None if local is None else str(local),
        problem=None if problem is None else str(problem),
        tables_problem=None if tables is None else str(tables),
        acting=bool(members.get("acting")),
        acting_problem=str(members.get("actingProblem") or ""),
        acting_settings=str(members.get("actingSettings") or ""),
    )


def _election(members: Mapping[str, Any]) -> ElectionState:
    master = members["master"]
    return ElectionState(
        engine=str(members.get("engine") or ""),
        own_id=int(members["ownId"]),
        epoch=int(members["epoch"]),
        master=None if master is None else int(master),
        master_address=str(members.get("masterAddr") or ""),
        known_since_ms=int(members.get("knownSince") or 0),
        in_sync=tuple(int(each) for each in members["syncStateSet"]),
        in_sync_epoch=int(members.get("syncStateSetEpoch") or 0),
        confirmed=int(members["confirmed"]),
        problem=str(members.get("problem") or ""),
        apart=str(members.get("apart") or ""),
        unelectable=str(members.get("unelectable") or ""),
        fencing=str(members.get("fencing") or ""),
        least_copies=int(members.get("minInSyncReplicas") or 1),
        lease_ms=int(members.get("leaseMillis") or 0),
        learner=bool(members.get("learner")),
        data_lost=str(members.get("dataLost") or ""),
        away_since_ms={int(each["brokerId"]): int(each["timestamp"]) for each in members.get("away") or ()},
    )


def _epoch(members: Mapping[str, Any]) -> Epoch:
    end = int(members["endOffset"])
    return Epoch(int(members["epoch"]), int(members["startOffset"]), None if end == _OPEN_END else end)
