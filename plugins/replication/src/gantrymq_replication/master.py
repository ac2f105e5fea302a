"""The master's side: a port for slaves, and what it knows of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.interfaces import Broker
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.world import Timer
from gantrymq.world.clock import wait_set
from gantrymq_replication.acting.service import ActingService
from gantrymq_replication.connection import Shared, SlaveConnection
from gantrymq_replication.durable_mark import DurableMark
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.ha_port import HaPort
from gantrymq_replication.replicas import Replicas
from gantrymq_replication.sending import SentLog
from gantrymq_replication.settings import SYNC_MASTER, HaSettings
from gantrymq_replication.slave_log import SlaveLogs
from gantrymq_replication.streams import HaStreams

__all__ = ["MasterService"]

log = logging.getLogger("gantrymq.replication")

TOO_FEW: Final = (
    "too few slaves are connected and near (%d are connected; inSyncReplicas=%d needs %d): sends are stored and "
    "answered with 11 SLAVE_NOT_AVAILABLE until there are enough"
)
LAST_S: Final = 2.0  # for slaves to get the rest of the log, at the stop
REVIEW_S: Final = 0.5  # between two looks at the slaves, if any are needed


class MasterService:
    """Serves slaves while the broker is a master."""

    name = "ha_master"
    stops_last = True  # acknowledgements wait for slaves

    def __init__(self, gate: ReplicaGate, acting: ActingService) -> None:
        self.replicas: Replicas | None = None
        self.port: HaPort[SlaveConnection] | None = None
        self._gate, self._acting = gate, acting
        self._cancel: list[Callable[[], object]] = []
        self._timer: Timer | None = None
        self._lacks_slaves = False  # acknowledgements cannot wait for as many as needed
        self._reported = asyncio.Event()  # set when a slave reports or is gone

    async def start(self, broker: Broker) -> None:
        """Open the port and register it.

        Raises:
            ConfigError: the port cannot be opened, or the store has no raw log to copy.
        """
        rules, raw_log = HaSettings.of(broker.settings), broker.store.raw_log
        if rules.elected:
            return
        if raw_log is None:
            if rules.role == SYNC_MASTER:
                raise ConfigError("brokerRole=SYNC_MASTER: this store cannot be copied; select store=mmap")
            return
        self._broker, self._rules, self._raw_log = broker, rules, raw_log
        _warn(rules)
        DurableMark(broker).forget()
        self.replicas = Replicas(rules, lambda: self._acting.alive)
        durable = broker.settings.text("flushDiskType") == "SYNC_FLUSH"
        clock = broker.world.clock
        self._slave_logs = SlaveLogs(broker, raw_log)
        busy_poll = BusyPoll(broker.world, broker.settings.number("busyPollMicros") / 1_000_000)
        shared = Shared(
            SentLog(raw_log, clock, rules, busy_poll, broker.store.flushed if durable else None),
            self.replicas,
            self._gate,
            compare=self._slave_logs.compare,
            changed=self._review,
        )
        port = self.port = HaPort(
            *(broker, rules, HaStreams(broker.world, broker.settings), self.replicas.departures),
            make=lambda link: SlaveConnection(shared, link),
            serves=lambda: True,
            ended=self._ended,
        )
        await port.open(optional=rules.role != SYNC_MASTER and not rules.listen_port)
        if port.is_open:
            log.info("slaves may copy this log from %s", broker.registration.ha_address)
        self._gate.open(self.replicas, rules.slave_timeout_s, lambda: raw_log.log_range().max_offset, clock)
        self._cancel = [raw_log.on_truncated(lambda end: port.abort_all("the log was truncated; it begins again"))]
        if self.replicas.wanted > 1:
            self._look()

    async def stop(self) -> None:
        """Close the port and, when the slaves in sync have the whole log, all connections."""
        if self.port is None:
            return
        await self.port.close()
        for cancel in self._cancel:
            cancel()
        self._cancel = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._broker.role.refuse("")
        await self._slaves_have_all()
        reason = "this broker stops, or is no master any more"
        self.port.abort_all(reason)
        await self._slave_logs.close()
        await self.port.end_all(reason)
        self._gate.close()

    def _ended(self, connection: SlaveConnection) -> None:
        if self.port is not None:
            connection.ended(self.port.refusals)
        self._warn_of_lack()

    async def _slaves_have_all(self) -> None:
        """Wait until the slaves in sync have the whole log, so that one of them can take over, `LAST_S` at most."""
        if self.replicas is None:
            return
        clock = self._broker.world.clock
        until = clock.monotonic() + LAST_S
        while (left := until - clock.monotonic()) > 0:
            end = self._raw_log.log_range().max_offset
            if all(each.acked >= end for each in self.replicas.in_sync(end, clock.monotonic())):
                return
            self._reported.clear()
            await wait_set(clock, self._reported, left)

    # --- too few slaves -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._timer = self._broker.world.clock.call_later(REVIEW_S, self._look)
        self._review()
        self._warn_of_lack()

    @property
    def lack(self) -> str:
        """Why acknowledgements cannot wait for slaves; empty if they can, or do not."""
        if not self._lacks_slaves or self.replicas is None or self._timer is None:
            return ""
        return TOO_FEW % (len(self.replicas.all), self._rules.copies, self._rules.copies - 1)

    def _warn_of_lack(self) -> None:
        """Log that slaves are too few for acknowledgements, and that there are enough again."""
        replicas = self.replicas
        if (
            replicas is None
            or self._rules.role != SYNC_MASTER
            or self.port is None
            or not self.port.is_open
            or self._gate.starts
        ):
            return
        lacks = not replicas.available(self._raw_log.log_range().max_offset)
        if lacks != self._lacks_slaves:
            self._lacks_slaves = lacks
            if lacks:
                log.warning("%s", self.lack)
            else:
                log.info("enough slaves are connected again, and near enough for sends to wait for them")

    def _review(self) -> None:
        """Refuse messages while too few slaves are in sync."""
        self._reported.set()
        if self._timer is not None and self.replicas is not None and self._rules.least_copies > 1:
            end, now = self._raw_log.log_range().max_offset, self._broker.world.clock.monotonic()
            self._broker.role.refuse(self.replicas.shortage(end, now))


def _warn(rules: HaSettings) -> None:
    if rules.broker_id:
        log.warning("brokerId=%d has no effect: a master has the id 0", rules.broker_id)
    waits = rules.copies if rules.role == SYNC_MASTER else 1
    if rules.least_copies > waits and not (rules.role == SYNC_MASTER and rules.all_in_sync):
        log.warning(
            "minInSyncReplicas=%d refuses messages while fewer copies are in sync, but an acknowledgement waits for %d "
            "(brokerRole, inSyncReplicas): what is acknowledged may be on fewer copies",
            *(rules.least_copies, waits),
        )
    if rules.role != SYNC_MASTER and (rules.copies > 1 or rules.all_in_sync):
        key = "inSyncReplicas" if rules.copies > 1 else "allAckInSyncStateSet"
        log.warning("%s has no effect with brokerRole=ASYNC_MASTER; set SYNC_MASTER to wait for slaves", key)
    if rules.role == SYNC_MASTER and rules.copies == 1 and not rules.all_in_sync:
        log.warning(
            "brokerRole=SYNC_MASTER waits for no slave while inSyncReplicas is 1, as in RocketMQ 5; set "
            "inSyncReplicas=2 to acknowledge only what a slave has"
        )
