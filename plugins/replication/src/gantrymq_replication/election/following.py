"""One connection of a slave to its elected master: the log in, reports out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gantrymq.errors import LogMismatch
from gantrymq.interfaces import Broker
from gantrymq.model.hosts import parse_address
from gantrymq.world.clock import wait_set
from gantrymq_replication.copying import first_ended
from gantrymq_replication.election.auto_switch import HandshakeAnswer, Piece, SlaveHandshake, SlaveSide
from gantrymq_replication.election.comparing import Comparison
from gantrymq_replication.election.elected_log import ElectedLog
from gantrymq_replication.election.epochs import Epoch
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import Refused
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.slave_log import last_message
from gantrymq_replication.streams import HaStreams, Silence

__all__ = ["Following"]

log = logging.getLogger("gantrymq.replication")


class Following:
    """Copies until the connection is lost or the logs do not fit."""

    def __init__(
        self,
        broker: Broker,
        elected: ElectedLog,
        rules: HaSettings,
        slave: SlaveHandshake,
        least_epoch: int,
        moved: Callable[[], None],
        message_at: Callable[[int], Awaitable[bytes | None]],
    ) -> None:
        """*moved* is called when more is confirmed; *message_at* asks the master for a message, by log offset."""
        self.following = False  # the logs fit
        self._clock, self._log, self._rules, self._moved = broker.world.clock, elected, rules, moved
        self._message_at = message_at
        self._side = SlaveSide(slave, least_epoch)
        self._master: HandshakeAnswer | None = None
        self._compared: Comparison | None = None  # while the logs are being compared
        self._epoch: Epoch | None = None  # of the last bytes
        self._end, self._reported, self._reported_at = -1, -1, 0.0
        self._rest = b""  # of an incomplete record
        self._appended = asyncio.Event()
        self._problem = ""

    async def run(self, streams: HaStreams, address: str) -> None:
        """Connect to the HA port at *address* and copy.

        Raises:
            OSError: there is no connection, or it is lost.
            Refused: the logs do not fit.
            StoreError: this store takes no more.
        """
        self._link: Link = await streams.connect(*parse_address(address))
        self._silence = Silence(self._clock, self._rules.silence_s, self._silent)
        try:
            self._link.write(self._side.handshake())
            await first_ended(self._receive(), self._report_always())
        except OSError as error:
            raise ConnectionError(self._problem or str(error)) from error
        finally:
            self.following = False
            self._silence.cancel()
            self._link.abort()

    def _silent(self) -> None:
        self._problem = "it sent nothing for haHousekeepingInterval"
        self._link.abort()

    async def _receive(self) -> None:
        while data := await self._link.read():
            self._silence.heard()
            for event in self._side.receive(data):
                if isinstance(event, HandshakeAnswer):
                    await self._fit(event)
                else:
                    await self._take(event)
            if self._end > self._reported and self.following:
                self._grown()
        raise ConnectionError(self._problem or "it closed the connection")

    async def _fit(self, master: HandshakeAnswer) -> None:
        self._master = master
        compared = self._log.comparison(master)
        if compared is None:
            before = self._log.end
            end = await self._log.fit(master)
            if end < before:
                log.warning("this log was cut from %d to %d, which the master does not have", before, end)
            self._link.write(self._side.follow(end))
            await self._follow(end)
        elif not compared.open:
            await self._adopt(compared)  # refuses
        elif master.epochs and master.epochs[0].start <= compared.start:
            self._compared = compared
            self._link.write(self._side.follow(compared.start))
        else:
            await self._ask_last(master, compared)
            self._link.write(self._side.follow(await self._adopt(compared)))

    async def _follow(self, end: int) -> None:
        assert self._master is not None
        self._end = end
        await self._log.flushed(end)
        self._moved()
        self._reported, self._reported_at = end, self._clock.monotonic()
        self.following = True
        self._appended.set()
        log.info("this copy follows the master of epoch %d from log offset %d on", self._master.last_epoch, end)

    # --- comparison ---------------------------------------------------------------------------------------------------

    async def _compare(self, piece: Piece, compared: Comparison) -> Piece:
        """Compare a piece with the own log. Return what is after the end of that."""
        used = await self._log.compare(compared, piece.log_offset, piece.data)
        if not compared.open:
            self._compared = None
            self._report(await self._adopt(compared))
        return piece._replace(log_offset=piece.log_offset + used, data=piece.data[used:])

    async def _ask_last(self, master: HandshakeAnswer, compared: Comparison) -> None:
        """Compare the last message with what the master's broker port has: the master sends nothing before its epochs.

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

    async def _take(self, piece: Piece) -> None:
        if self._compared is not None:
            piece = await self._compare(piece, self._compared)
            if self._compared is not None:
                return
        if piece.data:
            if piece.epoch != self._epoch:
                await self._log.append_epoch(piece.epoch)
                self._epoch = piece.epoch
            if not self._end and not self._rest:  # an empty log begins where the master begins
                self._end = piece.log_offset
            before, data = self._end, self._rest + piece.data
            try:
                self._end = self._log.raw.append_raw(before, data)
            except LogMismatch as error:
                raise Refused(f"the master's log does not fit: {error}") from error
            self._rest = data[self._end - before :]
        if piece.confirm_offset > self._log.confirmed:
            self._log.confirm(min(piece.confirm_offset, self._end))
            self._moved()

    # --- reports ------------------------------------------------------------------------------------------------------

    def _grown(self) -> None:
        if not self._log.durable and self._link.writable:
            self._report(self._end)
        else:
            self._appended.set()

    def _report(self, log_offset: int) -> None:
        self._link.write(self._side.report(log_offset))
        self._reported, self._reported_at = log_offset, self._clock.monotonic()

    async def _report_always(self) -> None:
        while True:
            if not self.following:
                await self._appended.wait()
                self._appended.clear()
                continue
            due = self._reported_at + self._rules.heartbeat_s - self._clock.monotonic()
            if self._end > self._reported or due <= 0:
                end = self._end
                await self._log.flushed(end)
                await self._link.drain()
                self._report(max(end, self._reported))
                continue
            await wait_set(self._clock, self._appended, due)
            self._appended.clear()
