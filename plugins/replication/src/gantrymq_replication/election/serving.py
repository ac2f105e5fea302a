"""One connection of a slave to its elected master: reports in, the log out."""

from __future__ import annotations

import asyncio
import logging
from inspect import isawaitable
from typing import Final, Protocol

from gantrymq.errors import GantryError
from gantrymq.world import Clock
from gantrymq.world.clock import wait_set
from gantrymq.world.time_slices import TimeSlices
from gantrymq_replication.copying import first_ended
from gantrymq_replication.election.auto_switch import MasterSide, SlaveHandshake
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import Refused
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import HaStreams, Silence

__all__ = ["UNREPORTED", "Elected", "SlaveServing"]

log = logging.getLogger("gantrymq.replication")

PIECE_BYTES: Final = 512 * 1024
QUIET_S: Final = 0.005  # without records, until a heartbeat tells a new confirm offset
HANDSHAKE_S: Final = 10.0
UNREPORTED: Final = f"it reported nothing within {HANDSHAKE_S:g} s, or until newer connections needed its place"


class Elected(Protocol):
    """The master, as its connections use it."""

    @property
    def confirmed(self) -> int:
        """What every member of the in-sync set has."""

    def slave_problem(self, slave: SlaveHandshake) -> str:
        """Return why *slave* is not served; empty if it is."""

    def connected(self, serving: SlaveServing, slave: SlaveHandshake, acked: int) -> None:
        """Count a slave whose log is equal to this one up to *acked*."""

    def reported(self, slave: SlaveHandshake, acked: int) -> None:
        """Take a report."""

    def gone(self, slave: SlaveHandshake) -> None:
        """Take the end of the last connection of a slave."""


class SlaveServing:
    """Serves one slave until it is gone."""

    def __init__(self, elected: Elected, own: ElectedLog, rules: HaSettings, clock: Clock, link: Link) -> None:
        self._elected, self._log, self._rules, self._clock, self._link = elected, own, rules, clock, link
        self.address = link.address("peername")
        self.host = self.address.rpartition(":")[0]
        self.side = MasterSide()
        self._wake, self._begun = asyncio.Event(), asyncio.Event()
        self._told = -1  # the confirm offset that was sent last
        self._idle = False  # there is nothing to send
        self._written_at = 0.0
        self.problem = ""  # why it ends

    @property
    def silent(self) -> bool:
        """Whether it has not reported, and goes on: it may be no slave."""
        return not self._begun.is_set() and not self.problem

    @property
    def slave(self) -> SlaveHandshake | None:
        """What the slave says of itself; None before that, and before it is counted."""
        return self.side.slave if self._begun.is_set() else None

    def appended(self) -> None:
        """Send what was appended."""
        self._wake.set()

    def confirmed(self) -> None:
        """Tell the new confirm offset soon, if no record follows."""
        if self._idle:
            self._wake.set()

    def abort(self, problem: str) -> None:
        """Close the connection; *problem* is logged."""
        self.problem = self.problem or problem
        self._link.abort()

    async def run(self, streams: HaStreams) -> None:
        """Serve the slave; returns when the connection is lost."""
        self._silence = Silence(self._clock, self._rules.silence_s, lambda: self.abort("it reported nothing"))
        unnamed = self._clock.call_later(HANDSHAKE_S, self._unnamed)
        try:
            await streams.identify(self._link)
            await first_ended(self._receive(), self._send())
        except (OSError, GantryError) as error:
            self.problem = self.problem or str(error)
        finally:
            self._silence.cancel()
            unnamed.cancel()
            self._link.abort()

    def _unnamed(self) -> None:
        if self.silent:
            self.abort(UNREPORTED)

    async def _receive(self) -> None:
        while data := await self._link.read():
            self._silence.heard()
            for event in self.side.receive(data):
                if isinstance(event, SlaveHandshake):
                    self._check(event)
                    self._link.write(self.side.answer(self._log.epochs, self._log.end))
                    continue
                assert self.side.slave is not None
                self._check(self.side.slave)
                if self._begun.is_set():
                    self._elected.reported(self.side.slave, self.side.acked)
                    continue
                self.side.begin(self._log.range, self._last_file())
                log.info(
                    "slave %s, broker id %d, has this log up to %d", self.address, self.side.slave.broker_id, event[0]
                )
                self._begun.set()
                self._elected.connected(self, self.side.slave, self.side.acked)

    def _check(self, slave: SlaveHandshake) -> None:
        if problem := self._elected.slave_problem(slave):
            raise Refused(problem)

    def _last_file(self) -> int:
        low, end = self._log.range
        newest = [each.end for each in self._log.raw.sealed_segments() if each.end <= end]
        return newest[-1] if newest else low

    # --- sending ------------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        await self._begun.wait()
        slices = TimeSlices(self._clock, 16)
        while True:
            self._wake.clear()
            end, start = self._log.end, self.side.next_offset
            room = self.side.room(self._log.epochs)
            if start < end and room:
                await self._log.flushed(end)
                await self._link.drain()
                found = self._log.raw.read_log(start, min(PIECE_BYTES, self._rules.batch_bytes, room, end - start))
                self._write(await found if isawaitable(found) else found)
                await slices.item_done()
                continue
            due = self._written_at + self._rules.heartbeat_s - self._clock.monotonic()
            if due <= 0:
                self._write(b"")
            elif self._told != self._elected.confirmed:
                await wait_set(self._clock, self._wake, QUIET_S)
                if self._log.end == end:
                    self._write(b"")
            else:
                self._idle = True
                await wait_set(self._clock, self._wake, due)
                self._idle = False

    def _write(self, data: bytes) -> None:
        self._told, self._written_at = self._elected.confirmed, self._clock.monotonic()
        self._link.writelines(self.side.transfer(data, self._log.epochs, self._told))
