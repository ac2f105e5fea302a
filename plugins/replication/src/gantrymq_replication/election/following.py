"""The copy of the log of the master that was elected last: one connection after the other, the log in, reports out.

A broker that has no tables of a master yet follows as a learner first: a new master without topics would create them
with other queues, or refuse messages.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.interfaces import Broker, BrokerStorage
from gantrymq.plugin.model import parse_address
from gantrymq.plugin.world import wait_set
from gantrymq_replication.copying import MasterConnection
from gantrymq_replication.election.auto_switch import HandshakeAnswer, Piece, SlaveHandshake, SlaveSide
from gantrymq_replication.election.elected_log import ElectedLog, MasterLacks, TooOld
from gantrymq_replication.election.epochs import Epoch
from gantrymq_replication.election.machine import Follow
from gantrymq_replication.link import Link, first_ended
from gantrymq_replication.log_comparison import Comparison
from gantrymq_replication.master_broker import MasterBroker
from gantrymq_replication.protocol import Refused
from gantrymq_replication.settings import ETCD, ElectionSettings, HaSettings
from gantrymq_replication.slave_log import last_message
from gantrymq_replication.streams import HaStreams

log = logging.getLogger("gantrymq.replication")

_PROOF_S: Final = 1.0  # for the master to handle a report of the records that it lacks
_PAUSE_S: Final = 0.2  # between two attempts to copy
_SOON: Final = 25  # such attempts with the same problem; then `_REFUSED_S` between two
_REFUSED_S: Final = 5.0  # the same after logs that do not fit
_TOO_OLD_S: Final = 30.0  # the same after the master has deleted the log after the end of this one
_ASK_S: Final = 0.5  # between two questions for the master's HA address
_TABLES_S: Final = 0.1  # between two looks whether the tables are copied


class Following(MasterConnection):
    """Copies from an elected master until the connection is lost or the logs do not fit."""

    def __init__(
        self,
        broker: BrokerStorage,
        elected: ElectedLog,
        rules: HaSettings,
        link: Link,
        slave: SlaveHandshake,
        least_epoch: int,
        moved: Callable[[], None],
        *,
        message_at: Callable[[int], Awaitable[bytes | None]],
        first_offset: Callable[[], Awaitable[int | None]],
        may_lead: bool,
    ) -> None:
        """*moved* is called when more is confirmed; *message_at* asks the master for a message, by log offset.

        *first_offset* asks it where its log begins; None if the answer does not contain it. *may_lead*: the master is a
        broker of GantryMQ, and this broker may take over from it.
        """
        self._log, self._moved = elected, moved
        self._message_at, self._first_offset, self._may_lead = message_at, first_offset, may_lead
        self._side = SlaveSide(slave, least_epoch)
        self._master: HandshakeAnswer | None = None
        self._compared: Comparison | None = None  # while the logs are being compared
        self._epoch: Epoch | None = None  # of the last bytes
        self._events: Iterable[HandshakeAnswer | Piece] = ()
        super().__init__(broker, elected.raw, rules, link, self._side.report)

    async def run(self) -> None:
        """Copy until the connection is lost.

        Raises:
            OSError: the connection is lost.
            Refused: the logs do not fit.
            StoreError: this store takes no more.
        """
        try:
            self._link.write(self._side.handshake())
            await self._copy(self._receive())
        finally:
            self.following = False

    async def _receive(self) -> None:
        while await self._link.deliver(self._received):
            for event in self._events:  # the first one has to be waited for
                await self._take_in_time(event)
        raise ConnectionError(self._problem or "it closed the connection")

    def _received(self, data: bytes) -> bool:
        """Handle arrived bytes. Return whether an event has to be waited for, which is the first of `_events`."""
        self._heard(data)
        pieces = list[Piece]()
        events = self._side.receive(data)
        for event in events:
            if self._compared is not None or isinstance(event, HandshakeAnswer) or self._begins_epoch(event):
                self._events = itertools.chain([event], events)
                self._take(pieces)
                return True
            pieces.append(event)
        self._take(pieces)
        return False

    def _begins_epoch(self, piece: Piece) -> bool:
        # With the first heartbeat, too, as RocketMQ's slaves: a log may have no other epoch in common with theirs.
        return piece.epoch != self._epoch and (bool(piece.data) or piece.epoch.start <= self._appending.end)

    async def _take_in_time(self, event: HandshakeAnswer | Piece) -> None:
        if isinstance(event, HandshakeAnswer):
            await self._fit(event)
            return
        if self._compared is not None:
            event = await self._compare(event, self._compared)
            if self._compared is not None:
                return
        if self._begins_epoch(event):
            await self._log.append_epoch(event.epoch)
            self._epoch = event.epoch
        self._take([event])

    async def _fit(self, master: HandshakeAnswer) -> None:
        self._master = master
        if self._log.far_behind(master) and (first := await self._first_offset()) is not None:
            self._log.check_age(first)
        compared = self._log.comparison(master)
        if compared is None:
            before = self._log.end
            try:
                end = await self._log.fit(master)
            except MasterLacks:
                if self._may_lead:
                    await self._prove()
                raise
            if end < before:
                log.warning("this log was cut from %d to %d, which the master does not have", before, end)
            if (compared := self._log.unconfirmed(master)) is not None:
                self._begin_comparison(compared)
            else:
                await self._follow(end)
                self._side.follow(end)
        elif not compared.open:
            await self._adopt(compared)  # refuses
        elif master.epochs and master.epochs[0].start <= compared.start:
            self._begin_comparison(compared)
        else:
            await self._ask_last(master, compared)
            self._side.follow(await self._adopt(compared))

    async def _prove(self) -> None:
        """Report the confirm offset, which the master lacks: it hands over to this broker, or closes the connection."""
        self._link.write(self._side.report(self._log.confirmed))
        limit = self._clock.call_later(_PROOF_S, self._link.abort)
        with suppress(OSError):
            while await self._link.read():
                pass
        limit.cancel()

    async def _follow(self, end: int) -> None:
        assert self._master is not None
        await self._log.flushed(end)
        self._moved()
        self._appending.begin(end)
        self.following = True
        log.info("this copy follows the master of epoch %d from log offset %d on", self._master.last_epoch, end)

    # --- comparison ---------------------------------------------------------------------------------------------------

    def _begin_comparison(self, compared: Comparison) -> None:
        self._compared = compared
        self._link.write(self._side.follow(compared.start))

    async def _compare(self, piece: Piece, compared: Comparison) -> Piece:
        """Compare a piece with the own log. Return the part after the end of the own log."""
        used = await self._log.compare(compared, piece.log_offset, piece.data)
        if not compared.open:
            self._compared = None
            await self._adopt(compared)
        return piece._replace(log_offset=piece.log_offset + used, data=piece.data[used:])

    async def _ask_last(self, master: HandshakeAnswer, compared: Comparison) -> None:
        """Compare the last message with the one at the master's broker port: it sends nothing before its epochs.

        Raises:
            Refused: it is another one, or more than that is needed.
            ConnectionError: there is no answer.
        """
        first, end = master.epochs[0].start if master.epochs else master.end, self._log.end
        found = await last_message(self._log.raw, end, self._clock)
        if found is None or end < first or compared.end < end or compared.least < end:
            raise Refused(
                f"the master sends nothing before {first}, where its epochs begin, and this log ends at {end}: see "
                "'From fixed roles to elected ones' in the documentation of elected masters"
            )
        message = await self._message_at(found[0])
        if message is None:
            raise ConnectionError(f"it does not tell which message it has at {found[0]}")
        compared.equal, compared.differs = (end, False) if message == found[1] else (found[0], True)

    async def _adopt(self, compared: Comparison) -> int:
        assert self._master is not None
        before, end = self._log.end, await self._log.adopt(self._master, compared)
        if end < before:
            raise ConnectionError(f"this log was cut from {before} to {end}, which the master does not have")
        log.info("this log is equal to the master's up to %d, as a comparison from %d on tells", end, compared.start)
        await self._follow(end)
        return end

    # --- the master's log ---------------------------------------------------------------------------------------------

    def _take(self, pieces: Sequence[Piece]) -> None:
        """Append *pieces* of one epoch."""
        if not pieces:
            return
        if data := [each.data for each in pieces if each.data]:
            start = next(each.log_offset for each in pieces if each.data)
            self._appending.append(start, data, self._silence.heard_at)
        confirmed = pieces[-1].confirm_offset
        completed = False
        if not self._log.whole and self._master is not None:
            completed = self._log.whole = self._appending.end >= max(self._master.end, confirmed)
        if completed or confirmed > self._log.confirmed:
            self._log.confirm(min(confirmed, self._appending.end))
            self._moved()


class ElectedCopy:
    """Follows one master at a time, from `begin` to `end`."""

    def __init__(
        self,
        broker: Broker,
        own: ElectedLog,
        ha: HaSettings,
        rules: ElectionSettings,
        streams: HaStreams,
        lacks_tables: Callable[[], bool],
        electable: Callable[[], bool],
        news: Callable[[], None],
    ) -> None:
        """*lacks_tables*: whether this broker has no tables of a master yet; *electable*: whether it may be the master;
        *news*: called when the logs are equal, or more is confirmed."""
        self._broker, self._clock, self._log, self._ha, self._rules = broker, broker.world.clock, own, ha, rules
        self._streams, self._lacks_tables, self._electable, self._news = streams, lacks_tables, electable, news
        self.problem = ""  # why this broker does not follow its master
        self.ha_address = ""  # of the master
        self._master, self._reported = MasterBroker(broker), asyncio.Event()
        self._followed_address = ""  # broker address of the master that is followed
        self._task: asyncio.Task[None] | None = None
        self._following: Following | None = None
        self._received = 0  # bytes from earlier masters
        self._read_before_ms = 0

    @property
    def connection(self) -> Following | None:
        """The connection to the master that is followed; None without one."""
        return self._following

    @property
    def followed(self) -> str | None:
        """The broker address of the master whose log is being copied; None if none is."""
        return self._followed_address if self._following is not None and self._following.following else None

    @property
    def received_bytes(self) -> int:
        """Bytes of the log received from masters since the start."""
        return self._received + (0 if self._following is None else self._following.traffic.total)

    @property
    def read_at_ms(self) -> int:
        """Wall time when a master was last heard; 0 for never."""
        return (0 if self._following is None else self._following.read_at_ms) or self._read_before_ms

    def learn(self, master: str, ha_address: str) -> None:
        """Record the addresses of the master of this broker name that a name server reports."""
        self._master.learn(master, ha_address)
        self._reported.set()

    def begin(self, master: Follow, own_id: int) -> None:
        """Copy the log of *master*, as broker id *own_id*, until `end`."""
        self._followed_address = master.address
        self._task = asyncio.ensure_future(self._copy_always(master, own_id))

    async def end(self) -> None:
        """Copy no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def stops(self, master: str, own_id: int) -> None:
        """Inform the master at the broker address *master* that this broker stops."""
        await self._master.stops(master, own_id)

    async def close(self) -> None:
        """Close the connections to broker ports; call it after `end`."""
        await self._master.close()

    async def _copy_always(self, master: Follow, own_id: int) -> None:
        told, tries = "", 0
        while True:
            pause, address = _PAUSE_S if tries < _SOON else _REFUSED_S, master.ha_address
            try:
                self.ha_address = address = address or await self._address(master)
                await self._copy(master, own_id, address)
            except Exception as error:
                if isinstance(error, (GantryError, OSError, ValueError)):
                    self.problem = f"master {address}: {error}"
                else:
                    self.problem = f"master {address}: {type(error).__name__}: {error}"
                    if self.problem != told:
                        log.exception("the copy of the log failed")
                if isinstance(error, GantryError):
                    pause = _TOO_OLD_S if isinstance(error, TooOld) else _REFUSED_S
            else:
                continue  # it joins the set now
            tries += 1
            if self.problem != told:
                told, tries = self.problem, 0
                log.warning("this copy does not follow: %s", told)
            await self._clock.sleep(pause)

    async def _copy(self, master: Follow, own_id: int, address: str) -> None:
        waits = not self._rules.learner and self._lacks_tables()
        learner = self._rules.learner or waits
        hello = SlaveHandshake(own_id, self._ha.from_last_file, learner, tells_tables=not learner)
        asked, last_message = self._master, partial(self._master.message_at, master.address)
        if ours := self._rules.engine == ETCD:
            await asked.check_access(master.address)
        else:
            ours = await asked.is_ours(master.address)
        link = await self._streams.connect(*parse_address(address))
        self._following = Following(
            *(self._broker, self._log, self._ha, link, hello, master.epoch if ours else 0, self._followed),
            message_at=last_message,
            first_offset=partial(asked.first_offset, master.address),
            may_lead=ours and self._electable(),
        )
        parts = [self._following.run()]
        if waits:
            parts.append(self._tables_copied())
        try:
            await first_ended(*parts)
        finally:
            self._received, self._read_before_ms = self.received_bytes, self.read_at_ms
            self._following = None

    def _followed(self) -> None:
        self.problem = ""
        self._news()

    async def _tables_copied(self) -> None:
        """Return when this broker has the tables of its master. Until then it follows as a learner."""
        while self._lacks_tables():
            await self._clock.sleep(_TABLES_S)

    async def _address(self, master: Follow) -> str:
        """Return the HA address of *master*, as soon as a name server reports it."""
        while self._master.address != master.address or not self._master.ha_address:
            self.problem = (
                f"no name server tells the HA address of the master {master.address}"
                if master.address
                else f"the engine does not tell the address of broker id {master.master}, which is the master"
            )
            self._reported.clear()
            self._broker.registration.changed()
            await wait_set(self._clock, self._reported, _ASK_S)
        return self._master.ha_address
