"""The service ``ha_status``: answers requests about the state of replication, and registers its metrics.

    907   the slaves of a master, or the connection of a slave (`state`)
    1007  epochs, which only logs of elected roles have; otherwise refused as RocketMQ does
    65037 from a broker that stops, so that no status counts it as lost: brokerId of an elected one; GantryMQ's own

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getBrokerEpochCache).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gantrymq.errors import RequestRefused
from gantrymq.plugin.headers import Header, Int64, header_of
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Action, Role, format_address
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.election.service import ElectionService
from gantrymq_replication.master import MasterService
from gantrymq_replication.metric_families import election_metrics, replication_metrics
from gantrymq_replication.peers import BROKER_STOPS
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

if TYPE_CHECKING:
    from gantrymq_replication.election.elected_broker import ElectedBroker
    from gantrymq_replication.state import State


@header_of(BROKER_STOPS)
class _BrokerStopsRequest(Header):
    """Request 65037."""

    broker_id: Int64


class StatusService:
    """Reports the state of replication."""

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
        self._broker = broker
        for read in replication_metrics(self.state):
            broker.metrics.register(read)
        if (elected := self._elected) is not None:
            for read in election_metrics(elected):
                broker.metrics.register(read)
            await elected.settle_id()

    async def stop(self) -> None:
        """Do nothing: the metrics go with the service."""

    @property
    def _elected(self) -> ElectedBroker | None:
        """This broker in the election; None with fixed roles."""
        return self._election.elected if self._election.enabled else None

    def state(self) -> State:
        """Return the state of replication now."""
        from gantrymq_replication.state import elected_state, fixed_state  # when the state is read first

        if (elected := self._elected) is not None:
            return elected_state(self._broker, elected, self._tables)
        return fixed_state(self._broker, self._master, self._slave, self._acting, self._tables)

    # --- requests -----------------------------------------------------------------------------------------------------

    @serves(RequestCode.GET_BROKER_HA_STATUS, action=Action.GET)
    def status(self, asked: Command, connection: Connection) -> Command:
        """Answer 907: the slaves of this master, or the connection of this slave."""
        return _answer(asked, self.state().as_json())

    @serves(RequestCode.GET_BROKER_EPOCH_CACHE, action=Action.GET)
    def epochs(self, asked: Command, connection: Connection) -> Command:
        """Answer 1007: the epochs of the log; with fixed roles refuse it, with RocketMQ's sentence."""
        if (elected := self._elected) is None:
            raise RequestRefused(1, "this request only for controllerMode ")
        from gantrymq_replication.state import epoch_cache

        return _answer(asked, epoch_cache(elected))

    @serves(BROKER_STOPS, action=Action.UPDATE)
    def broker_stops(self, asked: Command, connection: Connection) -> Command:
        """Handle 65037: a slave stops, or the last master after it has handed over to this one."""
        replicas = self._master.replicas if self._broker.role.current is Role.MASTER else None
        if (elected := self._elected) is not None:
            elected.stops(_BrokerStopsRequest.from_ext(asked.ext).broker_id)
        elif replicas is not None:
            replicas.stops(format_address(*connection.peer).rpartition(":")[0])
        return response_to(asked)


def _answer(asked: Command, body: dict[str, Any]) -> Command:
    return response_to(asked, 0, None, None, json.dumps(body, separators=(",", ":")).encode())
