"""One connection of a slave to its master: reports in, the log out.

A slave that has everything gets each append at once, in the step of the event loop that appends. What it lacks
otherwise a coroutine sends, as fast as the slave reads. With flushDiskType=SYNC_FLUSH only what is on the master's disk
is sent, so that no slave has records that the master may lose in a power cut.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import attrs

from gantrymq.errors import GantryError, LogMismatch
from gantrymq.interfaces import MessageStore, RawLog
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.world import Clock
from gantrymq.world.clock import wait_set
from gantrymq.world.time_slices import TimeSlices
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import MasterSide, Refused, is_one_record
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import Silence
from gantrymq_replication.traffic import Departure

__all__ = ["UNREPORTED", "Shared", "SlaveConnection"]

log = logging.getLogger("gantrymq.replication")

PIECE_BYTES = 512 * 1024  # read from the log at once
FIRST_REPORT_S = 10.0  # a RocketMQ slave reports 5 s after it has connected
BRIEF_S = 10.0  # a slave that is gone sooner, for the same reason as before, is not logged again


UNREPORTED = f"it reported nothing within {FIRST_REPORT_S:g} s, or until newer connections needed its place"


@attrs.frozen
class Shared:
    """What all connections of a master use."""

    store: MessageStore
    raw_log: RawLog
    clock: Clock
    rules: HaSettings
    replicas: Replicas
    gate: ReplicaGate
    identify: Callable[[Link], Awaitable[None]]  # may raise Refused
    compare: Callable[[str, int], Awaitable[bool]]  # peer and end of its log; whether it is equal; may raise Refused
    changed: Callable[[], None]  # called after each report and when a slave is gone
    durable: bool  # send only what is on disk
    busy_poll: BusyPoll  # between records that are sent one by one, and their reports


class SlaveConnection:
    """Serves one slave until it is gone."""

    def __init__(self, shared: Shared, link: Link) -> None:
        self._shared, self._link = shared, link
        self.address = link.address("peername")
        self.host = self.address.rpartition(":")[0]
        self._side = MasterSide(_new_slave_from(shared))
        self._wake = asyncio.Event()
        self._idle = False  # the sending coroutine waits for an append
        self._now = shared.clock.monotonic
        self._written_at = self._now()
        self._window_at, self._window_bytes = 0.0, 0
        self._replica: Replica | None = None
        self._equal = False  # its log up to its first report is known to be this one
        self._problem = ""

    def appended(self, end: int) -> None:
        """Send the log up to *end*, at once if nothing has to be waited for."""
        if not self._idle:
            return  # the coroutine looks for more by itself
        shared, start = self._shared, self._side.next_offset
        if shared.durable or shared.rules.bytes_per_second or end - start > PIECE_BYTES or not self._link.writable:
            self._wake.set()
            return
        try:
            data = shared.raw_log.read_log(start, end - start)
        except GantryError:
            data = b""
        if isinstance(data, bytes) and len(data) == end - start:
            self._write(data)
            now = self._written_at
            shared.busy_poll.happened(self, now, now, alone=is_one_record(data))
            return
        if not isinstance(data, bytes):  # not in memory
            asyncio.ensure_future(data).cancel()
        self._wake.set()

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
        sending = asyncio.ensure_future(self._send_always())
        sending.add_done_callback(self._sending_ended)
        silence = Silence(self._shared.clock, self._shared.rules.silence_s, self._silent)
        first_report = self._shared.clock.call_later(FIRST_REPORT_S, self._unreported)
        try:
            await self._shared.identify(self._link)
            await self._begin(silence)
            await self._link.deliver(lambda data: self._received(data, silence))
        except OSError as error:
            self._problem = self._problem or str(error)
        except Refused as error:
            self._problem = self._problem or str(error)
            self._shared.replicas.refused += 1
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
        problem = self._problem or "it closed the connection"
        departure = Departure(self.host, self._shared.clock.now_ms(), problem, self._replica is not None)
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
            self._side.receive(data, self._shared.raw_log.log_range())
        self._equal = await self._shared.compare(self.address, self._side.acked)
        self._reported()

    def _received(self, data: bytes, silence: Silence) -> None:
        silence.heard()
        if self._side.receive(data, self._shared.raw_log.log_range()):
            self._reported()

    def _reported(self) -> None:
        shared, end, now = self._shared, self._shared.raw_log.log_range().max_offset, self._now()
        if self._replica is None:
            start = self._side.next_offset
            self._replica = Replica(self.address, self._side.acked, now, start, unproven=-1 if self._equal else start)
            shared.replicas.add(self._replica, end)
            self._written_at = now - shared.rules.heartbeat_s  # a heartbeat tells it at once that it has everything
            log.log(
                logging.DEBUG if self.host in shared.replicas.departures.untold else logging.INFO,
                "slave %s is connected; it gets the log from %d on, compares what it has and copies the rest",
                *(self.address, start),
            )
            self._wake.set()
        self._replica.acknowledge(self._side.acked, end, now)
        shared.gate.acknowledged()
        shared.changed()
        shared.busy_poll.happened(self, now, self._now(), alone=self._side.acked == self._side.next_offset)

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

    async def _send_always(self) -> None:
        shared, side = self._shared, self._side
        while True:
            end = shared.raw_log.log_range().max_offset
            if self._replica is None:
                await self._wait()
            elif side.next_offset < end:
                if shared.durable:
                    await shared.store.flushed(end)
                await self._send(end)
            elif self._now() - self._written_at >= shared.rules.heartbeat_s:
                self._write(b"")
            else:
                await self._wait()

    async def _send(self, end: int) -> None:
        """Send the log up to *end*."""
        side, slices = self._side, TimeSlices(self._shared.clock, 16)
        while side.next_offset < end:
            room = await self._room()
            try:
                data = self._shared.raw_log.read_log(side.next_offset, min(PIECE_BYTES, end - side.next_offset, room))
                data = await data if isawaitable(data) else data
            except LogMismatch as error:
                raise Refused(f"it is too slow, or the log was truncated: {error}; it begins again") from error
            self._write(data)
            await slices.item_done()

    def _write(self, data: bytes) -> None:
        """Write *data* in transfers, or a heartbeat if it is empty."""
        size = self._shared.rules.batch_bytes
        parts: list[bytes] = []
        for start in range(0, len(data) or 1, size):
            parts += self._side.transfer(data[start : start + size])
        self._link.writelines(parts)
        self._written_at = self._now()
        self._window_bytes += len(data)
        if self._replica is not None:
            self._shared.replicas.sent(self._replica, len(data), self._side.next_offset, self._written_at)

    async def _room(self) -> int:
        """Wait until the slave reads and flow control allows to send, and return how many bytes."""
        await self._link.drain()
        rate = self._shared.rules.bytes_per_second
        if not rate:
            return PIECE_BYTES
        while True:
            now = self._now()
            if now - self._window_at >= 1:
                self._window_at, self._window_bytes = now, 0
            if self._window_bytes < rate:
                return rate - self._window_bytes
            await self._shared.clock.sleep(self._window_at + 1 - now)

    async def _wait(self) -> None:
        """Wait until the slave is to be served; then, until something was appended or a heartbeat is due."""
        if self._replica is not None:
            due = max(0.001, self._written_at + self._shared.rules.heartbeat_s - self._now())
            self._idle = True
            await wait_set(self._shared.clock, self._wake, due)
            self._idle = False
        else:
            await self._wake.wait()
        self._wake.clear()


def _new_slave_from(shared: Shared) -> int:
    """Return where a slave with an empty log begins: at the oldest log file, or at the newest."""
    low, high = shared.raw_log.log_range()
    if not shared.rules.from_last_file:
        return low
    newest = [each.end for each in shared.raw_log.sealed_segments() if each.end <= high]
    return newest[-1] if newest else low
