"""Comparison of a slave's log with the log of its master, before the slave follows.

The slave asks for the log from a place before `least`, and compares it with its own:

    own log      |-------------------------------------------------|  end
    compared                             |-------------------------|
    asked from                           ^ start    ^ least: from here on the own log may be cut

Logs of two masters differ in every record after the first difference, because records contain their store time, so the
last records before `least` decide. After a stop that was not clean, everything that was not surely on the disk is
compared.

A master with a fixed role sends its log from any offset that it is asked for, and nothing of a slave's log may be cut
(`fixed_comparison`). If it has deleted that place, it sends nothing; then the next attempt begins at the next log file.

With elected roles the epochs show which part is equal, except for two cases. Records of fixed roles have no epoch of
their own: all of them are epoch 0, which starts at 0 in every log. Of two logs that have only that epoch in common, the
bytes decide (`elected_comparison`). If all is equal, or all before `least`, the slave follows, and the rest, which the
in-sync set has not confirmed, is cut. Records of fixed roles are never cut. And epochs describe what was appended,
although a power cut may have removed it, so unconfirmed records are compared as well (`unconfirmed`), and cut where
they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import Final

import attrs

from gantrymq.plugin.interfaces import LogRange, RawLogReader
from gantrymq_replication.election.epochs import Epoch, EpochList

OVERLAP_BYTES: Final = 64 * 1024
FIXED: Final = Epoch(0, 0)  # records that were written with fixed roles


@attrs.define
class Comparison:
    """The range to compare, and how far it is equal."""

    start: int
    least: int  # from here on the own log may be cut
    end: int  # of the range that both logs have
    equal: int = attrs.field(default=attrs.Factory(lambda self: self.start, takes_self=True))
    differs: bool = False  # the comparison ended at a difference
    by_epochs: bool = False  # the logs are equal by their epochs; a power cut may have changed either log

    @property
    def open(self) -> bool:
        """Whether something is left to compare."""
        return self.equal < self.end and not self.differs

    @property
    def fails(self) -> bool:
        """Whether too little is equal to follow the master."""
        return not self.open and self.equal < self.least

    def compare(self, own: bytes, other: bytes) -> bool:
        """Compare the bytes from `equal` on, both of the same length. Return whether they are equal."""
        if own == other:
            self.equal += len(own)
            return True
        self.equal += next(place for place, pair in enumerate(zip(own, other, strict=True)) if pair[0] != pair[1])
        return False


def fixed_comparison(own: LogRange, durable: int | None, later: int | None = None) -> Comparison:
    """Return the comparison of a slave of a master with a fixed role.

    Args:
        own: range of the own log.
        durable: bytes after it were perhaps damaged by an unclean stop; None after a clean one.
        later: begin there instead, because the master has deleted earlier bytes, if that is before the own end.
    """
    low, end = own
    start = max(end - OVERLAP_BYTES, low)
    if durable is not None and low <= durable < start:
        start = durable
    if later is not None and start < later < end:
        start = later
    # A report of 0 means an empty log, so a log is compared from its second byte on.
    return Comparison(max(start, 1) if end else 0, end, end)


def elected_comparison(
    own: LogRange, epochs: EpochList, master: Sequence[Epoch], master_end: int, kept: int, durable: int | None
) -> Comparison | None:
    """Return the comparison before a slave follows; None if its log is empty, or the epochs decide.

    Args:
        own: range of the slave's log.
        epochs: of the slave.
        master: epochs of the master.
        master_end: end of the master's log.
        kept: nothing before it may be cut.
        durable: of a log of fixed roles, bytes after it were perhaps damaged by an unclean stop; None otherwise.
    """
    low, end = own
    common = epochs.common(master)
    if low == end or (common is not None and common.epoch):
        return None
    if epochs.entries and epochs.entries[0].epoch and not (master and not master[0].epoch):
        return None  # both are logs of elected roles
    least = end
    if epochs.entries and not epochs.entries[0].epoch:
        later = [each.start for each in epochs.entries[1:]]
        least = max(kept, min([*later, end]))
    if least <= low:
        least = end  # the records of fixed roles are deleted
    start = least - OVERLAP_BYTES
    if durable is not None and not epochs.entries:
        start = min(start, durable)
    return Comparison(max(start, low, 1), min(least, end), min(end, master_end))


def unconfirmed(low: int, kept: int, point: int, file_start: int, master: Sequence[Epoch]) -> Comparison | None:
    """Return the comparison up to *point*, where the logs are equal by their epochs; None without anything to compare.

    It covers records that are not confirmed, and at least the last ones: every log begins with an epoch 1 at 0, also
    that of a master of another set of brokers, to which an old address leads.

    Args:
        low: start of the slave's log.
        kept: end that was on the disk of each member of an in-sync set.
        point: see `EpochList.consistent_point`.
        file_start: start of the log file before *point*. The master may have deleted earlier ones.
        master: epochs of the master, which sends nothing before them.
    """
    least = max(kept, low)
    if point <= low or not master or master[0].start > least:
        return None
    last = max(point - OVERLAP_BYTES, file_start, master[0].start, 1)
    start = max(min(last, least), low, 1)
    return Comparison(start, min(least, point), point, by_epochs=True) if start < point else None


async def read_whole(raw_log: RawLogReader, start: int, end: int) -> bytes:
    """Return the log from *start* to *end*. Raises LogMismatch: it does not have all of that."""
    parts: list[bytes] = []
    while start < end:
        data = raw_log.read_log(start, end - start)
        parts.append(await data if isawaitable(data) else data)
        start += len(parts[-1])
    return b"".join(parts)


def last_record_start(start: int, data: bytes, place: int) -> int:
    """Return the last start of a record at or before *place*.

    *data* are the bytes of the log from *start*, where a record begins, at least up to *place*.
    """
    found = following = start
    while following <= place:
        found = following
        head = data[found - start : found - start + 4]
        size = int.from_bytes(head, "big") if len(head) == 4 else 0  # records and blanks begin with their size
        if size <= 0:
            break
        following += size
    return found
