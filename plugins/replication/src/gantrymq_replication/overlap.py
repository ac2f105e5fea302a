"""Comparison of the end of a slave's log with the log of its master, before it follows.

A classic master sends its log from any offset that it is asked for. So a slave asks from a place before its own end,
and compares what comes with what it has. Logs of two masters differ in every record after the first difference, because
records contain their store time, so the last records decide. After a stop that was not clean, everything that was not
surely on the disk is compared. A master that has deleted the place that it is asked for sends nothing; then the next
attempt begins at the next log file.

    own log     |----------------------|  end
    compared                  |--------|
    asked from                ^ start
"""

from __future__ import annotations

from inspect import isawaitable
from typing import Final

from gantrymq.interfaces import LogRange, RawLog

__all__ = ["Overlap", "last_record_start", "read_whole"]

OVERLAP_BYTES: Final = 64 * 1024


async def read_whole(raw_log: RawLog, start: int, end: int) -> bytes:
    """Return the log from *start* to *end*. Raises LogMismatch: it does not have all of that."""
    parts: list[bytes] = []
    while start < end:
        data = raw_log.read_log(start, end - start)
        parts.append(await data if isawaitable(data) else data)
        start += len(parts[-1])
    return b"".join(parts)


class Overlap:
    """The range to compare, and how far it is equal."""

    def __init__(self, own: LogRange, durable: int | None, later: int | None = None) -> None:
        """Choose the range.

        Args:
            own: range of the own log.
            durable: what comes after it was perhaps damaged by an unclean stop; None after a clean one.
            later: begin there instead, because the master has deleted what is before, if that is before the own end.
        """
        self.end = own.max_offset
        start = max(own.max_offset - OVERLAP_BYTES, own.min_offset)
        if durable is not None and own.min_offset <= durable < start:
            start = durable
        if later is not None and start < later < own.max_offset:
            start = later
        # A report of 0 means an empty log, so a log is compared from its second byte on.
        self.start = max(start, 1) if own.max_offset else 0
        self.equal = self.start

    @property
    def open(self) -> bool:
        """Whether something is left to compare."""
        return self.equal < self.end

    def compare(self, own: bytes, other: bytes) -> bool:
        """Compare the bytes from `equal` on, both of the same length. Return whether they are equal."""
        if own == other:
            self.equal += len(own)
            return True
        self.equal += next(number for number, pair in enumerate(zip(own, other, strict=True)) if pair[0] != pair[1])
        return False


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
