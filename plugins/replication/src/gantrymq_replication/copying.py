"""One connection of a slave to its master: the log in, reports out.

The slave compares the end of its log with the master's (`log_comparison`), then appends the rest (`appending`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from gantrymq.plugin.interfaces import BrokerStorage, RawLog
from gantrymq_replication.appending import LogAppending
from gantrymq_replication.damage import BLANK_MAGIC, LONGEST_BYTES, DurableMark, blank_end, is_damaged, keep
from gantrymq_replication.link import Link, first_ended
from gantrymq_replication.log_comparison import fixed_comparison, last_record_start, read_whole
from gantrymq_replication.protocol import Refused, SlaveSide, Transfer, keep_records
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.streams import Silence
from gantrymq_replication.traffic import Traffic

log = logging.getLogger("gantrymq.replication")

_MARK_S: Final = 1.0  # between two updates of the durable mark


class _Differs(Exception):
    """The log has to be truncated at `end`, the start of the first record that differs."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.end = end


class MasterConnection:
    """A connection of a slave to its master. Subclasses compare the logs; records are appended and reported here."""

    def __init__(
        self, broker: BrokerStorage, raw_log: RawLog, rules: HaSettings, link: Link, report: Callable[[int], bytes]
    ) -> None:
        """*report* returns the bytes of a report."""
        self.following = False  # the logs fit
        self.traffic = Traffic()
        self.read_at_ms = 0  # wall time when the master was last heard
        self._broker, self._clock, self._rules, self._link = broker, broker.world.clock, rules, link
        self._appending = LogAppending(broker, raw_log, rules, link, report)
        self._problem = ""

    @property
    def wrote_at_ms(self) -> int:
        """Wall time of the last report; 0 before the first one."""
        return self._appending.wrote_at_ms

    def abort(self, problem: str) -> None:
        """Close the connection because of *problem*."""
        self._problem = self._problem or problem
        self._link.abort()

    async def _copy(self, *parts: Coroutine[Any, Any, object]) -> None:
        """Run *parts* and report until the first one ends. Raises its exception, or ConnectionError."""
        self._silence = Silence(self._clock, self._rules.silence_s, self._unheard)
        try:
            await first_ended(*parts, self._appending.report_always())
        except OSError as error:
            raise ConnectionError(self._problem or str(error)) from error
        finally:
            self._silence.cancel()
            self._link.abort()

    def _heard(self, data: bytes) -> None:
        self._silence.heard()
        self.read_at_ms = self._clock.now_ms()
        self.traffic.add(len(data), self._silence.heard_at)

    def _unheard(self) -> None:
        self.abort("it sent nothing for haHousekeepingInterval")


class Copying(MasterConnection):
    """Copies from a master with a fixed role until the connection is lost or the logs do not fit."""

    def __init__(
        self,
        broker: BrokerStorage,
        raw_log: RawLog,
        rules: HaSettings,
        mark: DurableMark,
        durable: int | None,
        link: Link,
        address: str,
        *,
        heard: Callable[[], Coroutine[Any, Any, object]],
        after: int = -1,
        tell_after_s: float = 0.0,
    ) -> None:
        """Prepare to copy over a new connection.

        Args:
            durable: the mark, if the store was not stopped cleanly and has not been compared since; None otherwise.
            address: to which *link* was connected.
            heard: awaited when the master has sent something, before anything of it is appended.
            after: begin the comparison at a log file after this offset if there is one; see `fixed_comparison`.
            tell_after_s: how long it must have followed before that is logged.
        """
        self._heard_first = heard
        self.address, self.peer_address = address, link.address("peername")
        self.local_address = link.address("sockname")  # as the master sees it, without address translation
        self.heard = False  # the master has sent something; a frozen one only has its connections accepted
        self._store, self._log, self._mark, self._durable = broker.store, raw_log, mark, durable
        own = raw_log.log_range()
        if durable is not None:
            self._durable = durable = max(durable, own.min_offset)
        starts = [each.end for each in raw_log.sealed_segments()] if after >= 0 else []
        self._compared = fixed_comparison(own, durable, next((each for each in starts if each > after), None))
        self._doubt = -1  # of the first difference, in a blank: the record after it decides
        self._decided = own.max_offset  # the end of that record
        self._told, self._tell_after_s, self._tell_at = False, tell_after_s, 0.0
        self._side = SlaveSide(self._compared.start)
        super().__init__(broker, raw_log, rules, link, self._side.report)

    @property
    def _end(self) -> int:
        return self._appending.end

    async def run(self) -> None:
        """Copy until the connection is lost.

        Raises:
            OSError: the connection is lost.
            Refused: the logs do not fit.
            StoreError: this store takes no more.
        """
        self._appending.report(self._compared.start)
        try:
            await self._copy(self._receive(), self._mark_always())
        except _Differs as error:
            # Only now: a lost connection would cancel it, and a store that is truncated in part takes no more.
            await self._log.truncate(error.end)
            raise ConnectionError("the copy was truncated") from None

    @property
    def asked_in_vain(self) -> int:
        """Where the comparison was to begin, if the master sent nothing from there; -1 otherwise."""
        return self._compared.start if self._compared.open and self._compared.equal == self._compared.start else -1

    # --- the master's log -------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        if await self._link.arrived():
            self._silence.heard()
            self.heard = True
            await asyncio.shield(self._heard_first())  # a lost connection must not interrupt a change of the role
        while self._compared.open and (data := await self._link.read()):
            self._heard(data)
            transfers = self._side.receive(data)
            self._append([await self._compare(each) if self._compared.open else each for each in transfers])
        await self._link.deliver(self._received)
        raise ConnectionError("it closed the connection")

    def _received(self, data: bytes) -> None:
        self._heard(data)
        self._append(self._side.receive(data))

    def _heard(self, data: bytes) -> None:
        super()._heard(data)
        if self.following and not self._told and self._silence.heard_at >= self._tell_at:
            self._tell()

    def _begun(self) -> None:
        if not self._compared.open and not self.following:
            self.following = True
            self._appending.begin()
            self._tell_at = self._silence.heard_at + self._tell_after_s
            if not self._tell_after_s:
                self._tell()

    def _tell(self) -> None:
        self._told = True
        log.info("this copy begins to follow: it has the master's log up to %d, and gets the rest", self._end)

    async def _compare(self, transfer: Transfer) -> Transfer:
        """Compare a piece with the own log. Return the part after the end of the own log.

        Raises:
            Refused: the logs differ.
        """
        offset, data = transfer
        if not data:
            head = await self._read(offset, 8)
            if head[4:] == BLANK_MAGIC and offset + int.from_bytes(head[:4], "big") == self._end:
                raise _Differs(offset)  # a blank is all that the master has not
            raise Refused(
                f"this log ends at {self._end}, after the end {offset} of the master's: it has records that the master "
                f"does not have. {keep_records(offset)}"
            )
        length = min(len(data), self._compared.end - offset)
        own, at = await self._read(offset, length), max(self._compared.equal - offset, 0)
        while at < length and not self._compared.compare(own[at:], data[at:length]):
            await self._differs()
            at = self._compared.equal - offset
        if self._doubt >= 0 and self._decided <= self._compared.equal:
            await self._cut(self._doubt)  # no master but this one has written that record
        self._begun()
        return Transfer(offset + length, data[length:])

    async def _differs(self) -> None:
        """Cut damage, or go on after a blank.

        Raises:
            Refused: the difference is another master's record, or damage that was surely on the disk.
        """
        place = self._compared.equal
        low = max(place - LONGEST_BYTES, self._log.log_range().min_offset)
        data = await self._read(low, place + LONGEST_BYTES - low)
        first = place if self._doubt < 0 else self._doubt
        if after := blank_end(low, data, place):
            size = int.from_bytes(await self._read(after, 4), "big")
            self._doubt, self._decided, self._compared.equal = first, min(after + size, self._end), after
        elif is_damaged(low, data, place):
            await self._cut(first)
        else:
            raise Refused(
                f"this log differs from the master's at {first} (this one ends at {self._end}): it was written by "
                f"another master. {keep_records(first)}"
            )

    async def _cut(self, place: int) -> None:
        """Truncate the log at the damaged record at *place*."""
        durable = self._durable
        if durable is None or place < durable:
            raise Refused(
                f"this log is damaged at {place}: it differs from the master's there, and has no record. Stop this "
                "broker: 'gantrymq store check DIR' tells more, 'gantrymq store repair DIR' makes a mended copy; or "
                "start it with an empty folder to copy the master's log"
            )
        end = last_record_start(durable, await self._read(durable, place + 4 - durable), place)
        log.warning(
            "this copy is damaged at %d after an unclean stop: it is truncated from %d to %d, and the rest kept in %s",
            *(place, self._end, end, await keep(self._broker, self._read, end, self._end)),
        )
        raise _Differs(end)

    async def _read(self, start: int, length: int) -> bytes:
        return await read_whole(self._log, start, min(start + length, self._end))

    def _append(self, transfers: Iterable[Transfer]) -> None:
        """Append the whole records in *transfers*."""
        pieces, start, came = list[bytes](), 0, False
        for offset, piece in transfers:
            came = True
            if piece:
                start = start if pieces else offset
                pieces.append(piece)
        if pieces:
            self._appending.append(start, pieces, self._silence.heard_at)
        if came and not self.following:
            self._begun()

    # --- the durable mark -------------------------------------------------------------------------------------------

    def _have(self) -> int:
        """Return up to where the log is the master's; while it is being compared, the first report."""
        return self._compared.start if self._compared.open else self._end

    async def _mark_always(self) -> None:
        """Keep the durable mark near the end."""
        marked = -1
        while True:
            await self._clock.sleep(_MARK_S)
            if self.following and self._have() != marked:
                marked = self._have()
                await self._store.flushed(marked)
                await self._mark.write(marked)
