"""One connection of a slave to its master with a fixed role: reports in, the log out (`sending`).

With flushDiskType=SYNC_FLUSH only what is on the disk of the master is sent, so that no slave has records that the
master may lose in a power cut.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import attrs

from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.ha_port import Refusals, ServedSlave
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import MasterSide, Refused
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.sending import SentLog
from gantrymq_replication.traffic import Departure

__all__ = ["Shared", "SlaveConnection"]

log = logging.getLogger("gantrymq.replication")

BRIEF_S = 10.0  # a slave that is gone sooner, for the same reason as before, is not logged again


@attrs.frozen
class Shared:
    """What all connections of a master use."""

    sent: SentLog
    replicas: Replicas
    gate: ReplicaGate
    compare: Callable[[str, int], Awaitable[bool]]  # peer and end of its log; whether it is equal; may raise Refused
    changed: Callable[[], None]  # called after each report and when a slave is gone


class SlaveConnection(ServedSlave):
    """Serves one slave until it is gone."""

    def __init__(self, shared: Shared, link: Link) -> None:
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
            self._shared.gate.acknowledged()  # with allAckInSyncStateSet, what waited for this slave only
            self._shared.changed()
        if self.is_http:
            refusals.http(self.host)
            return
        refusals.count += self._refused
        problem = self.problem or "it closed the connection"
        departures = self._shared.replicas.departures
        departure = Departure(self.host, self._sent.clock.now_ms(), problem, self._replica is not None)
        news = departures.note(departure)
        stayed = self._replica is not None and self._now() - self._replica.connected_at >= BRIEF_S
        departures.untold.discard(departure.host)
        if not news and not stayed:
            departures.untold.add(departure.host)
        else:
            log.log(logging.WARNING if self.problem else logging.INFO, "slave %s is gone: %s", self.address, problem)


def _new_slave_from(shared: Shared) -> int:
    """Return where a slave with an empty log begins: at the oldest log file, or at the newest."""
    low, high = shared.sent.raw.log_range()
    if not shared.sent.rules.from_last_file:
        return low
    newest = [each.end for each in shared.sent.raw.sealed_segments() if each.end <= high]
    return newest[-1] if newest else low
