"""Which half messages are undecided, and how far the half queue and the op queue are worked off. No I/O, no time.

    half queue   ... | settled | open | settled | taken | open | ... end
                     ^ half_offset: everything before it is settled

    open      undecided: nobody has said a word
    taken     what decides it is being written
    settled   what decides it is in the log: an op message that names it, or a position behind it

A half message costs one bit from the first undecided one on, an op message eight bytes from the first one on that names
something there. So the two positions are what a restart, or a Java broker, needs to find the rest in the op queue.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check, calculateOpOffset).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

__all__ = ["Ledger"]

_UNREAD: Final = (1 << 63) - 1  # an op message of which only the place is known
_FULL: Final = b"\xff"
_TRIM: Final = 4096  # entries or bytes that are dropped together


def _ones(bits: bytes | bytearray) -> int:
    return int.from_bytes(bits, "big").bit_count()


class Ledger:
    """The state of one half queue and its op queue; offsets are queue offsets."""

    def __init__(self, half_offset: int, op_offset: int) -> None:
        """Begin where the work was left; everything from *half_offset* on counts as open until it is settled."""
        self.half_offset = half_offset
        self.op_offset = op_offset
        self._base = half_offset & ~7  # what the first bit stands for
        self._bits = bytearray()
        self._settled = 0  # bits set from half_offset on
        self._taken: set[int] = set()
        self._ops = array("q")  # highest half offset that each op message names, from _first_op on
        self._first_op = op_offset

    # --- events -----------------------------------------------------------------------------------------------------

    def take(self, offset: int) -> None:
        """What decides *offset* is being written; it must be open."""
        self._taken.add(offset)

    def release(self, offset: int) -> None:
        """Nothing was written: a taken offset is open again."""
        self._taken.discard(offset)

    def settle(self, offset: int) -> None:
        """What decides *offset* is in the log. The same again changes nothing."""
        self._taken.discard(offset)
        if offset < self.half_offset:
            return
        place, bit = divmod(offset - self._base, 8)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        if not self._bits[place] >> bit & 1:
            self._bits[place] |= 1 << bit
            self._settled += 1

    def settle_before(self, offset: int) -> None:
        """Everything before *offset* has left the log."""
        if offset <= self.half_offset:
            return
        self._taken = {each for each in self._taken if each >= offset}
        if self._bits:  # those before half_offset do not count
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
        """The op message at *op_offset* names these half offsets."""
        place = op_offset - self._first_op
        if place < 0:
            return
        while len(self._ops) <= place:
            self._ops.append(_UNREAD)
        self._ops[place] = max(named, default=-1)

    def advance(self, end: int) -> None:
        """Move both positions over what is settled, to *end*, the half queue's, at most."""
        found = self._first_clear(self.half_offset)
        self._move(min(found, end))
        place = self.op_offset - self._first_op
        while place < len(self._ops) and self._ops[place] < self.half_offset:
            place += 1
        self.op_offset = self._first_op + place
        if place >= _TRIM:
            del self._ops[:place]
            self._first_op = self.op_offset

    # --- questions --------------------------------------------------------------------------------------------------

    def is_taken(self, offset: int) -> bool:
        """Whether what decides it is being written."""
        return offset in self._taken

    def is_open(self, offset: int) -> bool:
        """Whether nothing has decided it and nothing is being written that would."""
        return offset >= self.half_offset and offset not in self._taken and not self._is_settled(offset)

    def undecided(self, end: int) -> int:
        """How many are not settled, in a half queue that ends at *end*."""
        return max(0, end - self.half_offset - self._settled)

    def open_offsets(self, start: int, end: int, most: int) -> list[int]:
        """The first *most* open offsets of [start, end)."""
        found: list[int] = []
        offset = self._first_clear(max(start, self.half_offset))
        while offset < end and len(found) < most:
            if offset not in self._taken:
                found.append(offset)
            offset = self._first_clear(offset + 1)
        return found

    def unread_ops(self, most: int) -> list[int]:
        """Op messages that stop the op position because nobody said what they name."""
        place = self.op_offset - self._first_op
        return [self._first_op + each for each in range(place, len(self._ops)) if self._ops[each] == _UNREAD][:most]

    @property
    def ops_seen(self) -> int:
        """Where the op messages that are known here end."""
        return self._first_op + len(self._ops)

    # ----------------------------------------------------------------------------------------------------------------

    def _is_settled(self, offset: int) -> bool:
        place, bit = divmod(offset - self._base, 8)
        return place < len(self._bits) and bool(self._bits[place] >> bit & 1)

    def _first_clear(self, offset: int) -> int:
        """The first offset from *offset* on that is not settled; whole bytes of settled ones are skipped at once."""
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
        """Let the half queue begin at *offset*, before which everything is settled."""
        known = min(offset, self._base + 8 * len(self._bits))
        self._settled -= max(0, known - self.half_offset)
        self.half_offset = offset
        drop = (offset - self._base) // 8
        if drop >= _TRIM or drop >= len(self._bits):
            del self._bits[:drop]
            self._base = offset & ~7
