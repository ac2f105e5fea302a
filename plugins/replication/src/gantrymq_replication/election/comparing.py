"""Comparison of a log with an elected master's, where the epochs do not tell whether both are equal.

Records of fixed roles have no epoch of their own: all of them are epoch 0, which starts at 0 in every log. So of two
logs that have only that in common, the bytes decide. The slave asks for the log from a place before `least`, and
compares what comes with what it has:

    own log      |---------------- epoch 0 ----------------|--- epochs that the master does not have ---|  end
    compared                                     |---------------------------------------------------|
    asked from                                   ^ start   ^ least

All is equal: the slave follows, with the master's epochs. Equal beyond `least` only: the rest, which the in-sync set
has not confirmed, is cut. Otherwise the slave refuses. Records of fixed roles are never cut.

Logs of two masters differ in every record after the first difference, because records contain their store time, so the
last ones before `least` decide (`overlap`).

Epochs tell what was appended, not what a power cut has left of it. So what is not confirmed is compared as well
(`unconfirmed`), and the slave cuts it where it differs from the master's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq.interfaces import LogRange
from gantrymq_replication.election.epochs import Epoch, EpochList
from gantrymq_replication.overlap import OVERLAP_BYTES

__all__ = ["FIXED", "Comparison", "comparison", "unconfirmed"]

FIXED: Final = Epoch(0, 0)  # records that were written with fixed roles


@attrs.define
class Comparison:
    """The range to compare, and how far it is equal."""

    start: int
    least: int  # from here on the own log may be cut
    end: int  # of what both logs have
    equal: int = attrs.field(default=attrs.Factory(lambda self: self.start, takes_self=True))
    differs: bool = False
    by_epochs: bool = False  # the epochs tell that it is equal; a power cut may have changed either log

    @property
    def open(self) -> bool:
        """Whether something is left to compare."""
        return self.equal < self.end and not self.differs

    @property
    def fails(self) -> bool:
        """Whether too little is equal to follow the master."""
        return not self.open and self.equal < self.least

    def take(self, own: bytes, other: bytes) -> None:
        """Compare the bytes from `equal` on, both of the same length."""
        if own == other:
            self.equal += len(own)
        else:
            self.equal += next(place for place, pair in enumerate(zip(own, other, strict=True)) if pair[0] != pair[1])
            self.differs = True


def comparison(
    own: LogRange, epochs: EpochList, master: Sequence[Epoch], master_end: int, kept: int, durable: int | None
) -> Comparison | None:
    """Return what to compare before a slave follows; None if its log is empty, or the epochs tell what is equal.

    Args:
        own: range of the slave's log.
        epochs: of the slave.
        master: epochs of the master.
        master_end: end of the master's log.
        kept: nothing before it may be cut.
        durable: of a log of fixed roles, what comes after it was perhaps damaged by an unclean stop; None otherwise.
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
    # A report of 0 means an empty log, so a log is compared from its second byte on.
    return Comparison(max(start, low, 1), min(least, end), min(end, master_end))


def unconfirmed(low: int, kept: int, point: int, file_start: int, master: Sequence[Epoch]) -> Comparison | None:
    """Return what to compare up to *point*, where the logs are equal as their epochs tell; None if there is nothing.

    That is what is not confirmed, and at least the last records: every log begins with an epoch 1 at 0, also that of a
    master of another set of brokers, to which an old address leads.

    Args:
        low: start of the slave's log.
        kept: end of what was on the disk of each member of an in-sync set.
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
