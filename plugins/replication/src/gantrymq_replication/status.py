"""The state of replication, for mqadmin and `gantrymq cluster status`; the service also registers the metrics.

    907   the slaves of a master, or the connection of a slave, as RocketMQ tells it and with GantryMQ's own members
    65037 from a broker that stops, so that no status counts it as lost: brokerId of an elected one; GantryMQ's own
    1007  epochs, which only logs of elected roles have; otherwise refused as RocketMQ does

GantryMQ's own members, which RocketMQ's tools ignore:

    wantedCopies, inSyncCopies     of a master, its own copy included
    haConnectionInfo[].lateMillis  how long ago the slave had everything; 0 if it has it
    haDepartures[]                 host, time and reason of ended connections; whether a report had come
    haClientRuntimeInfo.acting     whether a slave acts for its missing master
    haClientRuntimeInfo.actingProblem  why messages that it should store wait; empty if they do not
    haClientRuntimeInfo.actingSettings  what name servers or master have not set that acting needs; or empty
    haClientRuntimeInfo.problem    why a slave does not follow; empty while it does
    haClientRuntimeInfo.tablesProblem  why a slave that follows does not copy topics, groups and offsets; or empty
    haClientRuntimeInfo.localAddr  the address of its connection, by which its master knows it

Source: apache/rocketmq store/.../ha/DefaultHAService.java (getRuntimeInfo), remoting/.../body/HARuntimeInfo.java,
broker/.../processor/AdminBrokerProcessor.java (getBrokerEpochCache).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gantrymq.errors import RequestRefused
from gantrymq.interfaces import Broker, MetricFamily
from gantrymq.model.access import Action
from gantrymq.model.hosts import format_address
from gantrymq.model.role import Role
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.base import Header, Int64, header_of
from gantrymq.remoting.serving import serves
from gantrymq_replication.acting.service import ActingService
from gantrymq_replication.election.metric_families import ElectedCopies, election_metrics
from gantrymq_replication.election.service import ElectionService
from gantrymq_replication.election.status import connections, election_state, epoch_cache
from gantrymq_replication.master import MasterService
from gantrymq_replication.metric_families import CopyStates, FixedCopies, replication_metrics
from gantrymq_replication.peers import BROKER_STOPS
from gantrymq_replication.replicas import Replicas
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

__all__ = ["StatusService"]


@header_of(BROKER_STOPS)
class BrokerStopsRequest(Header):
    """See the module."""

    broker_id: Int64


class StatusService:
    """Tells the state of replication in both roles."""

    name = "ha_status"
    roles = frozenset(Role)

    def __init__(
        self,
        slave: SlaveService,
        master: MasterService,
        tables: TablesService,
        acting: ActingService,
        election: ElectionService,
    ) -> None:
        self._slave, self._master, self._tables, self._acting = slave, master, tables, acting
        self._election = election

    async def start(self, broker: Broker) -> None:
        """Register the metrics, and wait for the id in the election: this service is the last one to start."""
        self._broker, self._clock = broker, broker.world.clock
        copies: CopyStates = FixedCopies(broker, self._replicas, self._slave, self._master)
        more: list[Callable[[], MetricFamily]] = []
        if self._election.enabled:
            copies, more = ElectedCopies(self._election), election_metrics(self._election)
        for read in (*replication_metrics(copies, self._tables), *more):
            broker.metrics.register(read)
        if self._election.enabled:
            await self._election.settle_id()

    async def stop(self) -> None:
        """Do nothing: the metrics go with the service."""

    # --- requests -----------------------------------------------------------------------------------------------------

    @serves(RequestCode.GET_BROKER_HA_STATUS, action=Action.GET)
    def status(self, asked: Command, connection: Connection) -> Command:
        """907: tell the slaves of this master, or the connection of this slave."""
        if self._election.enabled:
            body = self._of_elected()
        else:
            body = self._of_master() if self._broker.role.current is Role.MASTER else self._of_slave()
        return response_to(asked, 0, None, None, json.dumps(body, separators=(",", ":")).encode())

    @serves(RequestCode.GET_BROKER_EPOCH_CACHE, action=Action.GET)
    def epochs(self, asked: Command, connection: Connection) -> Command:
        """1007: tell the epochs of the log; with fixed roles refuse it, with RocketMQ's sentence."""
        if not self._election.enabled:
            raise RequestRefused(1, "this request only for controllerMode ")
        body = epoch_cache(self._election)
        return response_to(asked, 0, None, None, json.dumps(body, separators=(",", ":")).encode())

    @serves(BROKER_STOPS, action=Action.UPDATE)
    def broker_stops(self, asked: Command, connection: Connection) -> Command:
        """65037: a slave stops, or the last master after it has handed over to this one."""
        if self._election.enabled:
            self._election.stops(BrokerStopsRequest.from_ext(asked.ext).broker_id)
        elif (replicas := self._replicas()) is not None:
            replicas.stops(format_address(*connection.peer).rpartition(":")[0])
        return response_to(asked)

    def _of_elected(self) -> dict[str, Any]:
        election, master = self._election, self._broker.role.current is Role.MASTER
        found = connections(election) if master else []
        copying = election.connection
        client = {
            "lastReadTimestamp": election.read_at_ms,
            "lastWriteTimestamp": copying.wrote_at_ms if copying is not None else 0,
            "masterAddr": "" if master else election.master_ha_address,
            "masterFlushOffset": 0,
            "maxOffset": 0 if master else self._end(),
            "problem": "" if master else election.why_apart,
            "tablesProblem": self._tables.missing,
            "transferredByteInSecond": copying.traffic.per_second(self._now()) if copying is not None else 0,
        }
        in_sync = sum(each["inSync"] for each in found)
        info = _runtime_info(client, found, in_sync, self._end() if master else 0, master=master)
        return {**info, "election": election_state(election)}

    def _of_slave(self) -> dict[str, Any]:
        slave, copying = self._slave, self._slave.copying
        client = {
            "acting": self._broker.role.current is Role.ACTING_MASTER,
            "actingProblem": self._acting.problem,
            "actingSettings": self._acting.settings_problem,
            "lastReadTimestamp": slave.read_at_ms,
            "lastWriteTimestamp": copying.wrote_at_ms if copying is not None else 0,
            "localAddr": copying.local_address if copying is not None else "",
            "masterAddr": slave.master_address,
            "masterFlushOffset": 0,
            "maxOffset": self._end(),
            "problem": slave.problem,
            "tablesProblem": self._tables.missing,
            "transferredByteInSecond": copying.traffic.per_second(self._now()) if copying is not None else 0,
        }
        return _runtime_info(client, [], 0, 0, master=False)

    def _of_master(self) -> dict[str, Any]:
        replicas, end, now = self._replicas(), self._end(), self._now()
        client = {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        }
        if replicas is None:
            return _runtime_info(client, [], 0, end, master=True)
        in_sync = replicas.in_sync(end, now)
        connections = [
            {
                "addr": each.address,
                "diff": end - each.acked,
                "inSync": each in in_sync,
                "lateMillis": round(1000 * each.late_s(end, now)),
                "slaveAckOffset": each.acked,
                "transferFromWhere": each.next_offset,
                "transferredByteInSecond": each.traffic.per_second(now),
            }
            for each in replicas.all
        ]
        departures = [
            {"host": each.host, "timestamp": each.at_ms, "problem": each.problem, "reported": each.reported}
            for each in replicas.departures.all
        ]
        return {
            **_runtime_info(client, connections, len(in_sync), end, master=True),
            "haDepartures": departures,
            "inSyncCopies": 1 + len(in_sync),
            "wantedCopies": replicas.wanted,
        }

    def _replicas(self) -> Replicas | None:
        """Return what this broker knows of its slaves; None if it has no port for slaves, or is no master."""
        return self._master.replicas if self._broker.role.current is Role.MASTER else None

    def _end(self) -> int:
        return self._broker.store.state().max_log_offset

    def _now(self) -> float:
        return self._clock.monotonic()


def _runtime_info(
    client: dict[str, Any], connections: list[dict[str, Any]], in_sync: int, end: int, *, master: bool
) -> dict[str, Any]:
    """Return RocketMQ's HARuntimeInfo."""
    return {
        "haClientRuntimeInfo": client,
        "haConnectionInfo": connections,
        "inSyncSlaveNums": in_sync,
        "master": master,
        "masterCommitLogMaxOffset": end,
    }
