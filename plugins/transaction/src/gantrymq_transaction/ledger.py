"""Which half messages are undecided, and the positions in the half queue and the op queue. No I/O, no time.

    half queue   ... | settled | open | settled | taken | open | ... end
                     ^ half_offset: everything before it is settled

    open      undecided: no decision was received
    taken     a decision is being written
    settled   a decision is in the log: an op message that names it, or a position after it

Memory: one bit per half message from the first undecided one on, and eight bytes per op message from the first one on
that names one of them. With the two positions, a restart or a Java broker finds the other decisions in the op queue.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check, calculateOpOffset).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from typing import Final

_UNREAD: Final = (1 << 63) - 1  # an op message that was not read
_FULL: Final = b"\xff"
_TRIM: Final = 4096  # entries or bytes dropped at a time


def _ones(bits: bytes | bytearray) -> int:
    return int.from_bytes(bits, "big").bit_count()


class Ledger:
    """The state of one half queue and its op queue; offsets are queue offsets."""

    def __init__(self, half_offset: int, op_offset: int) -> None:
        """Start at saved positions; everything from *half_offset* on is open until it is settled."""
        self.half_offset = half_offset
        self.op_offset = op_offset
        self._base = half_offset & ~7  # queue offset of the first bit
        self._bits = bytearray()
        self._settled = 0  # number of set bits from half_offset on
        self._taken: set[int] = set()
        self._ops = array("q")  # highest half offset named by each op message, from _first_op on
        self._first_op = op_offset

    # --- events -----------------------------------------------------------------------------------------------------

    def take(self, offset: int) -> None:
        """Mark an open offset as taken: its decision is being written."""
        self._taken.add(offset)

    def take_all(self, offsets: Iterable[int]) -> None:
        """Mark open offsets as taken."""
        self._taken.update(offsets)

    def release(self, offset: int) -> None:
        """Mark a taken offset as open again: nothing was written."""
        self._taken.discard(offset)

    def settle(self, offset: int) -> None:
        """Mark *offset* as settled: its decision is in the log. Idempotent."""
        self.settle_all((offset,))

    def settle_all(self, offsets: Collection[int]) -> None:
        """Mark *offsets* as settled; see `settle`."""
        self._taken.difference_update(offsets)
        base, bits, first, settled = self._base, self._bits, self.half_offset, 0
        for offset in offsets:
            if offset >= first:
                place, mask = (offset - base) >> 3, 1 << (offset - base & 7)
                if place >= len(bits):
                    bits.extend(bytes(place + 1 - len(bits)))
                if not bits[place] & mask:
                    bits[place] |= mask
                    settled += 1
        self._settled += settled

    def settle_before(self, offset: int) -> None:
        """Settle everything before *offset*: it was deleted from the log."""
        if offset <= self.half_offset:
            return
        self._taken = {each for each in self._taken if each >= offset}
        if self._bits:  # bits before half_offset are not counted
            self._bits[0] |= (1 << min(8, self.half_offset - self._base)) - 1
        known = min(offset, self._base + 8 * len(self._bits))
        whole, bits = divmod(max(0, known - self._base), 8)
        before = self._bits[: whole + (bits > 0)]
        self._bits[:whole] = _FULL * whole
        if bits:
            self._bits[whole] |= (1 << bits) - 1
        self._settled += _ones(self._bits[: len(before)]) - _ones(before)
        self._move(offset)

    def op_stored(self, op_offset: int, named: Iterable[int]) -> None:
        """Record that the op message at *op_offset* names these half offsets."""
        place = op_offset - self._first_op
        if place < 0:
            return
        while len(self._ops) <= place:
            self._ops.append(_UNREAD)
        self._ops[place] = max(named, default=-1)

    def advance(self, end: int) -> None:
        """Move both positions over settled messages, at most to *end*, the end of the half queue."""
        found = self._first_clear(self.half_offset)
        self._move(min(found, end))
        place = self.op_offset - self._first_op
        while place < len(self._ops) and self._ops[place] < self.half_offset:
            place += 1
        self.op_offset = self._first_op + place
        if place >= _TRIM:
            del self._ops[:place]
            self._first_op = self.op_offset

    # --- queries ----------------------------------------------------------------------------------------------------

    def is_taken(self, offset: int) -> bool:
        """Return whether a decision of *offset* is being written."""
        return offset in self._taken

    def is_open(self, offset: int) -> bool:
        """Return whether *offset* is neither settled nor taken."""
        return offset >= self.half_offset and offset not in self._taken and not self._is_settled(offset)

    def undecided(self, end: int) -> int:
        """Return how many messages are not settled in a half queue that ends at *end*."""
        return max(0, end - self.half_offset - self._settled)

    def open_offsets(self, start: int, end: int, most: int) -> list[int]:
        """Return the first *most* open offsets of [start, end)."""
        found: list[int] = []
        offset = self._first_clear(max(start, self.half_offset))
        while offset < end and len(found) < most:
            if offset not in self._taken:
                found.append(offset)
            offset = self._first_clear(offset + 1)
        return found

    def unread_ops(self, most: int) -> list[int]:
        """Return the offsets of unread op messages, which hold back the op position."""
        place = self.op_offset - self._first_op
        return [self._first_op + each for each in range(place, len(self._ops)) if self._ops[each] == _UNREAD][:most]

    @property
    def ops_seen(self) -> int:
        """End of the op messages known here."""
        return self._first_op + len(self._ops)

    # ----------------------------------------------------------------------------------------------------------------

    def _is_settled(self, offset: int) -> bool:
        place, bit = divmod(offset - self._base, 8)
        return place < len(self._bits) and bool(self._bits[place] >> bit & 1)

    def _first_clear(self, offset: int) -> int:
        """Return the first unsettled offset from *offset* on, skipping runs of full bytes."""
        while self._is_settled(offset):
            place, bit = divmod(offset - self._base, 8)
            if bit or self._bits[place] != 0xFF:
                offset += 1
                continue
            while place < len(self._bits) and self._bits[place] == 0xFF:
                chunk = self._bits[place : place + _TRIM]
                run = len(chunk) - len(chunk.lstrip(_FULL))
                place += run
                if run < len(chunk):
                    break
            offset = self._base + 8 * place
        return offset

    def _move(self, offset: int) -> None:
        """Set the half position to *offset*; everything before it must be settled."""
        known = min(offset, self._base + 8 * len(self._bits))
        self._settled -= max(0, known - self.half_offset)
        self.half_offset = offset
        drop = (offset - self._base) // 8
        if drop >= _TRIM or drop >= len(self._bits):
            del self._bits[:drop]
            self._base = offset & ~7
