"""Master with a fixed role: its slaves, and one connection to each: reports in, the log out.

With flushDiskType=SYNC_FLUSH only what is on the disk of the master is sent, so that no slave has records that the
master may lose in a power cut.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.network import BusyPoll
from gantrymq.plugin.world import Timer, wait_set
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.damage import DurableMark
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.ha_port import HaPort, Refusals, ServedSlave
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import MasterSide, Refused
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.sending import SentLog
from gantrymq_replication.settings import SYNC_MASTER, HaSettings
from gantrymq_replication.slave_log import SlaveLogs
from gantrymq_replication.streams import HaStreams
from gantrymq_replication.traffic import Departure

log = logging.getLogger("gantrymq.replication")

_BRIEF_S = 10.0  # a slave that is gone sooner, for the same reason as before, is not logged again
_TOO_FEW: Final = (
    "too few slaves are connected and near (%d are connected; inSyncReplicas=%d needs %d): sends are stored and "
    "answered with 11 SLAVE_NOT_AVAILABLE until there are enough"
)
_LAST_S: Final = 2.0  # for slaves to get the rest of the log, at the stop
_REVIEW_S: Final = 0.5  # between two looks at the slaves, if any are needed


@attrs.frozen
class _Shared:
    """Objects that all connections of a master share."""

    sent: SentLog
    replicas: Replicas
    gate: ReplicaGate
    compare: Callable[[str, int], Awaitable[bool]]  # peer and end of its log; whether it is equal; may raise Refused
    changed: Callable[[], None]  # called after each report and when a slave is gone


class SlaveConnection(ServedSlave):
    """Serves one slave until it is gone."""

    def __init__(self, shared: _Shared, link: Link) -> None:
        self._shared = shared
        self._side = MasterSide(_new_slave_from(shared))
        super().__init__(shared.sent, link, self._side)
        self._replica: Replica | None = None
        self._equal = False  # its log up to its first report is known to be this one
        self._refused = False

    @property
    def begun(self) -> bool:
        """Whether the slave has reported."""
        return self._side.begun

    async def _serve(self) -> None:
        """Wait for the first report, and serve a slave whose log fits."""
        while not self._side.begun:
            if not (data := await self._link.read()):
                return
            self._silence.heard()
            self._side.receive(data, self._sent.raw.log_range())
        self._equal = await self._shared.compare(self.address, self._side.acked)
        self._reported()
        await self._link.deliver(self._received)

    def _received(self, data: bytes) -> None:
        self._silence.heard()
        if self._side.receive(data, self._sent.raw.log_range()):
            self._reported()

    def _reported(self) -> None:
        shared, end, now = self._shared, self._sent.raw.log_range().max_offset, self._now()
        if self._replica is None:
            start = self._side.next_offset
            unproven = -1 if self._equal else start
            self._replica = Replica(self.address, self._side.acked, now, start, unproven, traffic=self.traffic)
            shared.replicas.add(self._replica, end)
            log.log(
                logging.DEBUG if self.host in shared.replicas.departures.untold else logging.INFO,
                "slave %s is connected; it gets the log from %d on, compares what it has and copies the rest",
                *(self.address, start),
            )
            self._sending.begin()
        self._replica.acknowledge(self._side.acked, end, now)
        shared.gate.acknowledged()
        shared.changed()
        self._sending.reported(now, alone=self._side.acked == self._side.next_offset)

    def _wrote(self, size: int, now: float) -> None:
        super()._wrote(size, now)
        if self._replica is not None:
            self._replica.next_offset = self._side.next_offset

    def _failed(self, error: Exception) -> None:
        self._refused = isinstance(error, Refused)

    def ended(self, refusals: Refusals) -> None:
        """Count the slave no more, and log why the connection ended, once for each host and reason."""
        if self._replica is not None:
            self._shared.replicas.remove(self._replica)
            self._shared.gate.acknowledged()  # with allAckInSyncStateSet, messages that waited only for this slave
            self._shared.changed()
        if self.is_http:
            refusals.http(self.host)
            return
        refusals.count += self._refused
        problem = self.problem or "it closed the connection"
        departures = self._shared.replicas.departures
        departure = Departure(self.host, self._sent.clock.now_ms(), problem, self._replica is not None)
        news = departures.note(departure)
        stayed = self._replica is not None and self._now() - self._replica.connected_at >= _BRIEF_S
        departures.untold.discard(departure.host)
        if not news and not stayed:
            departures.untold.add(departure.host)
        else:
            log.log(logging.WARNING if self.problem else logging.INFO, "slave %s is gone: %s", self.address, problem)


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
        rules, raw_log = HaSettings.of(broker.settings), broker.store_capabilities.raw_log
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
        syncs = (broker.store.flushed, broker.store_capabilities.loop_sync) if durable else ()
        clock = broker.world.clock
        self._slave_logs = SlaveLogs(broker, raw_log)
        busy_poll = BusyPoll(broker.world, broker.settings.number("busyPollMicros") / 1_000_000)
        shared = _Shared(
            SentLog(raw_log, clock, rules, busy_poll, *syncs),
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
        """Wait until the slaves in sync have the whole log, so that one can take over, `_LAST_S` at most."""
        if self.replicas is None:
            return
        clock = self._broker.world.clock
        until = clock.monotonic() + _LAST_S
        while (left := until - clock.monotonic()) > 0:
            end = self._raw_log.log_range().max_offset
            if all(each.acked >= end for each in self.replicas.in_sync(end, clock.monotonic())):
                return
            self._reported.clear()
            await wait_set(clock, self._reported, left)

    # --- too few slaves -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._timer = self._broker.world.clock.call_later(_REVIEW_S, self._look)
        self._review()
        self._warn_of_lack()

    @property
    def lack(self) -> str:
        """Why acknowledgements cannot wait for slaves; empty if they can, or do not."""
        if not self._lacks_slaves or self.replicas is None or self._timer is None:
            return ""
        return _TOO_FEW % (len(self.replicas.all), self._rules.copies, self._rules.copies - 1)

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


def _new_slave_from(shared: _Shared) -> int:
    """Return where a slave with an empty log begins: at the oldest log file, or at the newest."""
    low, high = shared.sent.raw.log_range()
    if not shared.sent.rules.from_last_file:
        return low
    newest = [each.end for each in shared.sent.raw.sealed_segments() if each.end <= high]
    return newest[-1] if newest else low


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
