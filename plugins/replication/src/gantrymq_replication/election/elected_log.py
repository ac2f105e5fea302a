"""The log of a broker with elected roles: its epochs, and how far it is confirmed by a whole in-sync set.

The confirm offset is kept in a file, a second late at most. A log is not cut below it: this broker may not follow a
master that lacks confirmed records.

A start with fixed roles removes the epochs and the confirm offset (`forget_epochs`). Masters with fixed roles are in no
list of epochs, so after their records the list would claim that logs are equal that are not. In a later election all
records are those of fixed roles, and slaves compare them (`log_comparison`). The broker keeps its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import LogMismatch
from gantrymq.plugin.interfaces import BrokerStorage, LogRange, RawLog
from gantrymq_replication.damage import LONGEST_BYTES, DurableMark, is_damaged
from gantrymq_replication.election.auto_switch import HandshakeAnswer
from gantrymq_replication.election.epochs import Epoch, EpochFile, EpochList, confirm_file
from gantrymq_replication.log_comparison import (
    FIXED,
    OVERLAP_BYTES,
    Comparison,
    elected_comparison,
    last_record_start,
    read_whole,
    unconfirmed,
)
from gantrymq_replication.protocol import Refused, keep_records
from gantrymq_replication.slave_log import last_message

log = logging.getLogger("gantrymq.replication")

_COPY: Final = (
    "this log was copied as a slave of fixed roles: start its master, which is elected first, so that this broker "
    "follows it once. If the master is lost, start this broker once with brokerRole=ASYNC_MASTER"
)
_THEN: Final = (
    "elect this broker by 'gantrymq cluster promote --unclean' (with etcd after a stop of the master), or start it with"
)


def _keep(log_offset: int) -> str:
    return keep_records(log_offset, _THEN)


class TooOld(Refused):
    """The master has deleted the log after the end of this one."""


class MasterLacks(Refused):
    """The master's log ends before the confirm offset of this one."""


class ElectedLog:
    """Log, epochs and confirm offset of one broker."""

    def __init__(self, broker: BrokerStorage, raw: RawLog, epochs: Path, *, keeps_confirmed: bool) -> None:
        """*keeps_confirmed*: a confirm offset is confirmed by a whole set, so that nothing before it may be cut.

        Raises:
            StoreDamaged: the list of epochs cannot be read.
        """
        self.raw, self._broker, self._keeps = raw, broker, keeps_confirmed
        self.durable = broker.settings.text("flushDiskType") == "SYNC_FLUSH"
        self._files, self._workers = broker.world.files, broker.world.workers
        self._file_bytes = broker.settings.number("mappedFileSizeCommitLog")
        self._path, self._mark = confirm_file(broker), DurableMark(broker)
        self._epoch_file = EpochFile(self._files, epochs)
        self.epochs, self.problem = self._epoch_file.load()
        self._older = bool(self.problem)  # the list may lack the newest epochs
        self.epochs.cut_from_offset(self.end + 1)
        if not self.problem and not self.epochs.entries and self.end and self._mark.read() is not None:
            self.problem = _COPY
        self.needed = self._read_confirmed() if keeps_confirmed else 0  # without this much, it must not be the master
        if not self.problem and self.end < self.needed:
            self.problem = (
                f"this log ends at {self.end}, but an in-sync set has confirmed it up to {self.needed}: it lacks "
                "acknowledged messages, so that this broker must follow a master before it may be one. If all other "
                f"copies are lost, remove {self._path}"
            )
        self.confirmed = min(self._read_confirmed(), self.end)  # while another broker is the master
        self._kept = self.confirmed
        # Whether it has all that it had in the in-sync set: a power cut removes records that were not on the disk.
        self.whole = self.durable or not keeps_confirmed or broker.clean_start

    @property
    def compares(self) -> bool:
        """Whether records that are not confirmed are compared with the master's log, and cut where they differ."""
        return self._keeps

    @property
    def range(self) -> LogRange:
        """The log offsets that can be read."""
        return self.raw.log_range()

    @property
    def end(self) -> int:
        """The end of the log."""
        return self.raw.log_range().max_offset

    @property
    def surely(self) -> int:
        """The end of the log; the end that is on the disk, if acknowledgements wait for that."""
        return self._broker.store.state().flushed_offset if self.durable else self.end

    async def flushed(self, log_offset: int) -> None:
        """Wait until the log is on the disk up to *log_offset*, if acknowledgements wait for that."""
        if self.durable:
            await self._broker.store.flushed(log_offset)

    # --- the confirm offset -------------------------------------------------------------------------------------------

    def _read_confirmed(self) -> int:
        if self._files.stat(self._path) is None:
            return 0
        text = self._files.read(self._path)
        return int(text) if text.isdigit() else 0

    def confirm(self, log_offset: int) -> None:
        """Note that the whole set has the log up to *log_offset*."""
        self.confirmed = max(self.confirmed, min(log_offset, self.end))

    async def hide_unconfirmed(self) -> None:
        """Hide the log after the kept confirm offset: another member of the set may not have it, and be elected.

        An empty log keeps 0 from the start. Without a file the records were written with fixed roles or by RocketMQ.
        """
        low, end = self.range
        known = self._files.stat(self._path) is not None
        if self._keeps and not known and low == end:
            await self._keep(0)
        place = max(self.confirmed, low)
        if not self._keeps or not known or place >= end:
            return
        try:
            await self.raw.hide(place)
        except LogMismatch:  # a slave of RocketMQ acknowledges parts of records
            if (found := await last_message(self.raw, place, self._broker.world.clock)) is not None:
                await self.raw.hide(found[0] + len(found[1]))

    async def keep_confirmed(self) -> None:
        """Replace the file if the confirm offset has grown, after that part of the log is on the disk."""
        if self._keeps and self.confirmed > self._kept:
            confirmed = self.confirmed
            await self._broker.store.flushed(confirmed)
            await self._keep(confirmed)

    async def _keep(self, confirmed: int) -> None:
        self._broker.state_folder("replication")
        await self._workers.run(self._files.replace, self._path, b"%d" % confirmed)
        self._kept = confirmed

    # --- epochs -------------------------------------------------------------------------------------------------------

    async def begin(self, epoch: int) -> None:
        """Begin *epoch* as its master, durably. A log of fixed roles gets an epoch 0 first."""
        low, end = self.range
        if end > low and not (self.epochs.entries and self.epochs.entries[0].start <= low):
            self.epochs = EpochList([FIXED, *self.epochs.entries])  # RocketMQ's list begins with the first election
        self.epochs.begin(epoch, end)
        self.epochs.forget_before(low)
        await self._save()
        self._mark.forget()

    async def append_epoch(self, epoch: Epoch) -> None:
        """Add the epoch of the bytes that are appended next, durably."""
        if self.epochs.append(*epoch):
            await self._save()

    async def _save(self) -> None:
        await self._workers.run(self._epoch_file.save, EpochList(self.epochs.entries))

    def far_behind(self, master: HandshakeAnswer) -> bool:
        """Return whether *master* may have deleted the log after the end of this one; it keeps its newest log file."""
        low, end = self.range
        return low < end and master.end - end > self._file_bytes

    def check_age(self, first: int) -> None:
        """Check that a master whose log begins at *first* has the log after the end of this one.

        Raises:
            TooOld: it has deleted that.
        """
        if first <= self.end:
            return
        unsure = f"; keep what you move: its records from {self.confirmed} on may exist nowhere else"
        raise TooOld(
            f"this log ends at {self.end}, and the master has deleted what follows: its log begins at {first}. To copy "
            "the log from there, stop this broker, move everything but brokerIdentity out of its store folder, and "
            f"start it{unsure if self._keeps and self.confirmed < self.end else ''}"
        )

    async def fit(self, master: HandshakeAnswer) -> int:
        """Cut the log to the last point where it is equal to the log of *master*, durably, and return that point.

        Raises:
            MasterLacks: the log is confirmed beyond the end of the master's.
            Refused: there is no such point, or the log is confirmed beyond it.
        """
        low, end = self.range
        if low == end:
            await self._take_epochs([], master, end)
            return end
        point = self.epochs.consistent_point(end, master.epochs, master.end)
        if point is None or point < low:
            raise Refused(
                f"this log ({low} to {end}) has no epoch in common with the master's: it was written by another set "
                f"of brokers, or the master has deleted that part. {_keep(low)}"
            )
        if self._keeps and point < self.confirmed:
            raise (MasterLacks if self.confirmed > master.end else Refused)(
                f"the master's log is equal to this one up to {point} only, but the in-sync set confirmed "
                f"{self.confirmed}: "
                f"the master lacks acknowledged messages. {_keep(point)}"
            )
        if point < end:
            try:
                await _whole(self.raw.truncate(point))
            except LogMismatch as error:
                raise Refused(
                    f"the logs are equal up to {point}, where no record of this log starts ({error}). {_keep(point)}"
                ) from error
            self.confirmed = min(self.confirmed, point)
        await self._take_epochs([each for each in self.epochs.entries if each.start < point], master, point)
        return point

    async def _take_epochs(self, before: list[Epoch], master: HandshakeAnswer, end: int) -> None:
        """Set the epochs to *before* and the master's epochs that begin at the end of this log.

        The latter have no record here yet. But if this broker is elected before they have one, they may be all that a
        RocketMQ slave has in common with it.
        """
        last = before[-1].epoch if before else -1
        epochs = EpochList([*before, *(each for each in master.epochs if each.start == end and each.epoch > last)])
        if epochs != self.epochs:
            self.epochs = epochs
            await self._save()
        self._older = False

    # --- logs whose epochs do not show whether they are equal ---------------------------------------------------------

    def comparison(self, master: HandshakeAnswer) -> Comparison | None:
        """Return the comparison with the log of *master* before `adopt`; None if `fit` finds the equal part."""
        (low, end), kept = self.range, self.confirmed if self._keeps else 0
        if self._older and kept > low:
            return Comparison(max(kept - OVERLAP_BYTES, low, 1), min(kept, end), min(end, master.end))
        return elected_comparison(self.range, self.epochs, master.epochs, master.end, kept, self._mark.read())

    def unconfirmed(self, master: HandshakeAnswer) -> Comparison | None:
        """Return the comparison with the log of *master* after `fit`; None if there is nothing to compare."""
        low, end = self.range
        file_start = max(end - 1, 0) // self._file_bytes * self._file_bytes
        return unconfirmed(low, self.confirmed, end, file_start, master.epochs) if self._keeps else None

    async def compare(self, compared: Comparison, log_offset: int, data: bytes) -> int:
        """Compare *data*, the master's log from *log_offset* on; return the number of bytes used."""
        place = compared.equal - log_offset
        other = data[place : compared.end - log_offset]
        own = await read_whole(self.raw, compared.equal, compared.equal + len(other))
        compared.differs = not compared.compare(own, other)
        return place + len(other)

    async def adopt(self, master: HandshakeAnswer, compared: Comparison) -> int:
        """Cut the log to the part that is equal to the log of *master*, adopt its epochs, durably, and return the end.

        Raises:
            Refused: too little is equal.
        """
        low, end = self.range
        place = compared.equal
        if compared.by_epochs and compared.fails:
            raise Refused(
                f"this log differs from the master's at {place}, although both have the same epochs there and an "
                f"in-sync set confirmed it up to {compared.least}: is that a master of another set of brokers, or is "
                f"one of the two logs damaged? {_keep(place)}"
            )
        if compared.by_epochs:
            return await self._cut(compared) if compared.differs else end
        if compared.fails and not compared.differs:
            raise Refused(
                f"this log ends at {end}, after the end {master.end} of the master's: it has records that the master "
                f"does not have. {_keep(master.end)}"
            )
        if compared.fails:
            start = max(place - LONGEST_BYTES, low)
            if is_damaged(start, await read_whole(self.raw, start, min(place + LONGEST_BYTES, end)), place):
                raise Refused(
                    f"this log is damaged at {place}: it differs from the master's there, and has no record. Start "
                    "this broker with brokerRole=SLAVE first, which mends what an unclean stop damaged, or with an "
                    "empty store folder"
                )
            raise Refused(
                f"this log differs from the master's at {place} (this one ends at {end}): it was written by another "
                f"master. {_keep(place)}"
            )
        if place < end:
            end = compared.least
            await _whole(self.raw.truncate(end))
        await self._take_epochs([each for each in master.epochs if each.start < end], master, end)
        self._mark.forget()
        self.problem = ""
        return end

    async def _cut(self, compared: Comparison) -> int:
        """Cut the log before the record that differs, durably, and return the end."""
        read = await read_whole(self.raw, compared.least, min(compared.equal + 4, self.end))
        end = last_record_start(compared.least, read, compared.equal)
        await _whole(self.raw.truncate(end))
        if self.epochs.cut_from_offset(end):
            await self._save()
        return end


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Do *work* to its end if the caller is cancelled meanwhile: a store that was truncated in part takes no more."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
