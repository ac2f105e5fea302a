"""One connection of a slave to its elected master: reports in, the log out (`sending`).

With flushDiskType=SYNC_FLUSH both disks sync at the same time: a slave of GantryMQ gets records before they are on the
master's disk, and cuts those that the master loses in a power cut (`comparing`). They were confirmed to nobody, as the
confirm offset is what every disk has. RocketMQ's slave compares no records, and gets what is on the disk.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from gantrymq.errors import GantryError
from gantrymq_replication.copying import first_ended
from gantrymq_replication.election.auto_switch import MasterSide, SlaveHandshake
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import Refused
from gantrymq_replication.sending import LogSending, SentLog
from gantrymq_replication.streams import HaStreams, Silence
from gantrymq_replication.traffic import Traffic

__all__ = ["UNREPORTED", "Elected", "SlaveServing"]

log = logging.getLogger("gantrymq.replication")

HANDSHAKE_S: Final = 10.0
UNREPORTED: Final = f"it reported nothing within {HANDSHAKE_S:g} s, or until newer connections needed its place"


class Elected(Protocol):
    """The master, as its connections use it."""

    @property
    def confirmed(self) -> int:
        """What every member of the in-sync set has."""

    def slave_problem(self, slave: SlaveHandshake) -> str:
        """Return why *slave* is not served; empty if it is."""

    async def unknown(self, broker_id: int) -> str:
        """Return why *broker_id* is not known as the id of a broker of the set; empty if it is."""

    def connected(self, serving: SlaveServing, slave: SlaveHandshake, acked: int) -> None:
        """Count a slave whose log is equal to this one up to *acked*."""

    def surpassed(self, slave: SlaveHandshake) -> None:
        """Handle a report that *slave* has confirmed more than this log has. Only slaves of GantryMQ send it."""

    def reported(self, slave: SlaveHandshake, acked: int) -> None:
        """Take a report."""

    def gone(self, slave: SlaveHandshake) -> None:
        """Take the end of the last connection of a slave."""


class _Frames:
    """Transfers of one epoch each, with the confirm offset; see `sending.Frames`."""

    def __init__(self, side: MasterSide, own: ElectedLog, elected: Elected) -> None:
        self._side, self._log, self._elected = side, own, elected
        self._told = -1  # the confirm offset that was sent last

    @property
    def next_offset(self) -> int:
        return self._side.next_offset

    @property
    def has_news(self) -> bool:
        return self._elected.confirmed != self._told

    def room(self) -> int:
        return self._side.room(self._log.epochs)

    def transfer(self, data: bytes) -> tuple[bytes, bytes]:
        self._told = self._elected.confirmed
        return self._side.transfer(data, self._log.epochs, self._told)


class SlaveServing:
    """Serves one slave until it is gone."""

    def __init__(self, elected: Elected, own: ElectedLog, sent: SentLog, link: Link) -> None:
        self._elected, self._log, self._sent, self._link = elected, own, sent, link
        self.address = link.address("peername")
        self.host = self.address.rpartition(":")[0]
        self.side = MasterSide()
        self.traffic = Traffic()
        self._sending = LogSending(sent, link, _Frames(self.side, own, elected), self.traffic.add)
        self._asks = asyncio.Event()  # its first report has come
        self._begun = False
        self.problem = ""  # why it ends

    @property
    def silent(self) -> bool:
        """Whether it has not reported, and goes on: it may be no slave."""
        return not self._begun and not self.problem

    @property
    def is_http(self) -> bool:
        """See `Link.is_http`."""
        return self._link.is_http

    @property
    def slave(self) -> SlaveHandshake | None:
        """What the slave says of itself; None before that, and before it is counted."""
        return self.side.slave if self._begun else None

    def appended(self, end: int) -> None:
        """Send the log up to *end*."""
        self._sending.appended(end)

    def confirmed(self) -> None:
        """Tell the new confirm offset soon, if no record follows."""
        self._sending.tell()

    def abort(self, problem: str) -> None:
        """Close the connection; *problem* is logged."""
        self.problem = self.problem or problem
        self._link.abort()

    async def run(self, streams: HaStreams) -> None:
        """Serve the slave; returns when the connection is lost."""
        clock = self._sent.clock
        self._silence = Silence(clock, self._sent.rules.silence_s, lambda: self.abort("it reported nothing"))
        unnamed = clock.call_later(HANDSHAKE_S, self._unnamed)
        try:
            await streams.identify(self._link)
            await first_ended(self._link.deliver(self._received), self._sending.run(), self._admit())
        except (OSError, GantryError) as error:
            self.problem = self.problem or str(error)
        finally:
            self._silence.cancel()
            unnamed.cancel()
            self._link.abort()

    def _unnamed(self) -> None:
        if self.silent:
            self.abort(UNREPORTED)

    def _received(self, data: bytes) -> None:
        self._silence.heard()
        for event in self.side.receive(data):
            assert self.side.slave is not None
            self._check(self.side.slave)
            if isinstance(event, SlaveHandshake):
                self._link.write(self.side.answer(self._log.epochs, self._log.end))
            elif self._begun:
                self._elected.reported(self.side.slave, self.side.acked)
            else:
                self._asks.set()
        self._sending.reported(self._silence.heard_at, alone=self.side.acked == self.side.next_offset)

    async def _admit(self) -> None:
        """Serve the slave from its first report on, if the set has a broker with its id, until the connection ends.

        The handshake of another one is answered, so that it can say that the logs are of different sets.
        """
        await self._asks.wait()
        slave = self.side.slave
        assert slave is not None
        if problem := await self._elected.unknown(slave.broker_id):
            raise Refused(problem)
        self._check(slave)
        self._begin()
        await asyncio.Event().wait()

    def _begin(self) -> None:
        assert self.side.slave is not None
        if self.side.acked > self._log.end:
            self._elected.surpassed(self.side.slave)
            raise Refused(
                f"broker id {self.side.slave.broker_id} has a log that an in-sync set confirmed up to "
                f"{self.side.acked}, and this master's ends at {self._log.end}"
            )
        self.side.begin(self._log.range, self._last_file())
        log.info("slave %s, broker id %d, has this log up to %d", self.address, self.side.slave[0], self.side.acked)
        self._begun = True
        self._sending.begin(ahead=self._log.compares and self.side.slave.tells_tables)  # one of GantryMQ
        self._elected.connected(self, self.side.slave, self.side.acked)

    def _check(self, slave: SlaveHandshake) -> None:
        if problem := self._elected.slave_problem(slave):
            raise Refused(problem)

    def _last_file(self) -> int:
        low, end = self._log.range
        newest = [each.end for each in self._log.raw.sealed_segments() if each.end <= end]
        return newest[-1] if newest else low
