"""One connection of a slave to its master: reports in, the log out (`sending`).

With flushDiskType=SYNC_FLUSH only what is on the disk of the master is sent, so that no slave has records that the
master may lose in a power cut.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import attrs

from gantrymq.errors import GantryError
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.ha_listener import Refusals
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import MasterSide, Refused
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.sending import LogSending, SentLog
from gantrymq_replication.streams import Silence
from gantrymq_replication.traffic import Departure

__all__ = ["UNREPORTED", "Shared", "SlaveConnection"]

log = logging.getLogger("gantrymq.replication")

FIRST_REPORT_S = 10.0  # a RocketMQ slave reports 5 s after it has connected
BRIEF_S = 10.0  # a slave that is gone sooner, for the same reason as before, is not logged again


UNREPORTED = f"it reported nothing within {FIRST_REPORT_S:g} s, or until newer connections needed its place"


@attrs.frozen
class Shared:
    """What all connections of a master use."""

    sent: SentLog
    replicas: Replicas
    gate: ReplicaGate
    refusals: Refusals
    identify: Callable[[Link], Awaitable[None]]  # may raise Refused
    compare: Callable[[str, int], Awaitable[bool]]  # peer and end of its log; whether it is equal; may raise Refused
    changed: Callable[[], None]  # called after each report and when a slave is gone


class SlaveConnection:
    """Serves one slave until it is gone."""

    def __init__(self, shared: Shared, link: Link) -> None:
        self._shared, self._link = shared, link
        self.address = link.address("peername")
        self.host = self.address.rpartition(":")[0]
        self._side = MasterSide(_new_slave_from(shared))
        self._sending = LogSending(shared.sent, link, self._side, self._wrote)
        self._now = shared.sent.clock.monotonic
        self._replica: Replica | None = None
        self._equal = False  # its log up to its first report is known to be this one
        self._problem = ""

    def appended(self, end: int) -> None:
        """Send the log up to *end*."""
        self._sending.appended(end)

    @property
    def silent(self) -> bool:
        """Whether it has not reported, and goes on: it may be no slave."""
        return not self._side.begun and not self._problem

    def abort(self, problem: str) -> None:
        """Close the connection; *problem* is logged."""
        self._problem = self._problem or problem
        self._link.abort()

    async def run(self) -> None:
        """Serve the slave; returns when the connection is lost."""
        sending = asyncio.ensure_future(self._sending.run())
        sending.add_done_callback(self._sending_ended)
        silence = Silence(self._shared.sent.clock, self._shared.sent.rules.silence_s, self._silent)
        first_report = self._shared.sent.clock.call_later(FIRST_REPORT_S, self._unreported)
        try:
            await self._shared.identify(self._link)
            await self._begin(silence)
            await self._link.deliver(lambda data: self._received(data, silence))
        except OSError as error:
            self._problem = self._problem or str(error)
        except Refused as error:
            self._problem = self._problem or str(error)
            self._shared.refusals.count += not self._link.is_http  # `_tell` notes why
        finally:
            silence.cancel()
            first_report.cancel()
            sending.cancel()
            self._link.abort()
            if self._replica is not None:
                self._shared.replicas.remove(self._replica)
                self._shared.gate.acknowledged()  # with allAckInSyncStateSet, what waited for this slave only
                self._shared.changed()
            self._tell()
            await asyncio.wait([sending])

    def _tell(self) -> None:
        """Log why the connection ended, once for each host and reason."""
        if self._link.is_http:
            self._shared.refusals.http(self.host)
            return
        problem = self._problem or "it closed the connection"
        departure = Departure(self.host, self._shared.sent.clock.now_ms(), problem, self._replica is not None)
        news = self._shared.replicas.departures.note(departure)
        stayed = self._replica is not None and self._now() - self._replica.connected_at >= BRIEF_S
        self._shared.replicas.departures.untold.discard(departure.host)
        if not news and not stayed:
            self._shared.replicas.departures.untold.add(departure.host)
        else:
            log.log(logging.WARNING if self._problem else logging.INFO, "slave %s is gone: %s", self.address, problem)

    async def _begin(self, silence: Silence) -> None:
        """Wait for the first report, and serve a slave whose log fits."""
        while not self._side.begun:
            if not (data := await self._link.read()):
                return
            silence.heard()
            self._side.receive(data, self._shared.sent.raw.log_range())
        self._equal = await self._shared.compare(self.address, self._side.acked)
        self._reported()

    def _received(self, data: bytes, silence: Silence) -> None:
        silence.heard()
        if self._side.receive(data, self._shared.sent.raw.log_range()):
            self._reported()

    def _reported(self) -> None:
        shared, end, now = self._shared, self._shared.sent.raw.log_range().max_offset, self._now()
        if self._replica is None:
            start = self._side.next_offset
            self._replica = Replica(self.address, self._side.acked, now, start, unproven=-1 if self._equal else start)
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

    def _silent(self) -> None:
        self.abort("it reported nothing for haHousekeepingInterval")

    def _unreported(self) -> None:
        if self.silent:
            self.abort(UNREPORTED)

    # --- sending ----------------------------------------------------------------------------------------------------

    def _sending_ended(self, sending: asyncio.Task[None]) -> None:
        if sending.cancelled() or (error := sending.exception()) is None:
            return
        if not isinstance(error, (GantryError, OSError)):
            log.error("the log cannot be sent to slave %s", self.address, exc_info=error)
        self.abort(str(error))

    def _wrote(self, size: int, now: float) -> None:
        if self._replica is not None:
            self._shared.replicas.sent(self._replica, size, self._side.next_offset, now)


def _new_slave_from(shared: Shared) -> int:
    """Return where a slave with an empty log begins: at the oldest log file, or at the newest."""
    low, high = shared.sent.raw.log_range()
    if not shared.sent.rules.from_last_file:
        return low
    newest = [each.end for each in shared.sent.raw.sealed_segments() if each.end <= high]
    return newest[-1] if newest else low
