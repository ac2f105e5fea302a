"""Connections of slaves to their elected master: reports in, the log out (`sending`).

With flushDiskType=SYNC_FLUSH both disks sync at the same time: a slave of GantryMQ gets records before they are on the
master's disk, and cuts those that the master loses in a power cut (`log_comparison`). They were not confirmed, because
the confirm offset is the end that is on every disk. RocketMQ's slave compares no records, and gets only what is on the
master's disk.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.network import BusyPoll
from gantrymq_replication.election.auto_switch import MasterSide, SlaveHandshake
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.ha_port import HaPort, ServedSlave
from gantrymq_replication.link import Link, first_ended
from gantrymq_replication.protocol import Refused
from gantrymq_replication.sending import SentLog
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import HaStreams
from gantrymq_replication.traffic import Departures

log = logging.getLogger("gantrymq.replication")


class Elected(Protocol):
    """The master, as its connections use it."""

    @property
    def is_serving(self) -> bool:
        """Whether this broker is a master that serves slaves."""

    @property
    def confirmed(self) -> int:
        """End of the log that every member of the in-sync set has."""

    def slave_problem(self, slave: SlaveHandshake) -> str:
        """Return why *slave* is not served; empty if it is."""

    async def unknown(self, broker_id: int) -> str:
        """Return why *broker_id* is not known as the id of a broker of the set; empty if it is."""

    def connected(self, serving: SlaveServing, slave: SlaveHandshake, acked: int) -> None:
        """Count a slave whose log is equal to this one up to *acked*."""

    def surpassed(self, slave: SlaveHandshake) -> None:
        """Handle a report that *slave* has confirmed more than this log has. Only slaves of GantryMQ send it."""

    def reported(self, slave: SlaveHandshake, acked: int) -> None:
        """Record a report."""

    def gone(self, slave: SlaveHandshake) -> None:
        """Handle the end of the last connection of a slave."""


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


class SlaveServing(ServedSlave):
    """Serves one slave until it is gone."""

    def __init__(self, elected: Elected, own: ElectedLog, sent: SentLog, link: Link) -> None:
        self._elected, self._log = elected, own
        self.side = MasterSide()
        super().__init__(sent, link, _Frames(self.side, own, elected))
        self._first_report = asyncio.Event()
        self._begun = False

    @property
    def begun(self) -> bool:
        """Whether the slave has reported, and is served."""
        return self._begun

    @property
    def slave(self) -> SlaveHandshake | None:
        """The handshake of the slave; None before it is served."""
        return self.side.slave if self._begun else None

    def confirmed(self) -> None:
        """Send the new confirm offset soon, if no record follows."""
        self._sending.tell()

    async def _serve(self) -> None:
        await first_ended(self._link.deliver(self._received), self._admit())

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
                self._first_report.set()
        self._sending.reported(self._silence.heard_at, alone=self.side.acked == self.side.next_offset)

    async def _admit(self) -> None:
        """Serve the slave from its first report on, if the set has a broker with its id, until the connection ends.

        The handshake of another one is answered, so that it can say that the logs are of different sets.
        """
        await self._first_report.wait()
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


class ElectedPort(HaPort[SlaveServing]):
    """The HA port of a broker with an elected role."""

    def __init__(
        self, broker: Broker, rules: HaSettings, streams: HaStreams, own: ElectedLog, elected: Elected
    ) -> None:
        busy_poll = BusyPoll(broker.world, broker.settings.number("busyPollMicros") / 1_000_000)
        syncs = (broker.store.flushed, broker.store_capabilities.loop_sync) if own.durable else ()
        sent = SentLog(own.raw, broker.world.clock, rules, busy_poll, *syncs)
        super().__init__(
            *(broker, rules, streams, Departures()),
            make=lambda link: SlaveServing(elected, own, sent, link),
            serves=lambda: elected.is_serving,
            ended=self._slave_ended,
        )
        self._elected = elected

    def confirmed(self) -> None:
        """Send slaves the new confirm offset."""
        for each in self._connections.values():
            each.confirmed()

    def end_older(self, serving: SlaveServing) -> None:
        """Close other connections of the same slave."""
        for each in self._same(serving):
            each.abort("it has connected again")

    def _same(self, serving: SlaveServing) -> list[SlaveServing]:
        own = serving.side.slave
        return [
            each
            for each in self._connections.values()
            if own is not None
            and each is not serving
            and each.slave is not None
            and each.slave.broker_id == own.broker_id
        ]

    def _slave_ended(self, serving: SlaveServing) -> None:
        reason = serving.problem or "it closed the connection"
        if serving.slave is not None:
            level = logging.WARNING if serving.problem and self._elected.is_serving else logging.INFO
            log.log(level, "slave %s, broker id %d, is gone: %s", serving.address, serving.slave.broker_id, reason)
            if not self._same(serving):
                self._elected.gone(serving.slave)
        elif serving.is_http:
            self.refusals.http(serving.host)
        elif self._elected.is_serving and self.refusals.note(serving.host, reason):
            log.warning("slave %s is gone: %s", serving.address, reason)
