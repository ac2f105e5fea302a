"""What the property text of a half message says, worked out once per distinct text.

The half messages of one producer mostly differ in their unique id alone, which stands in them twice. So a text is cut
where the id stands that its producer names, and what the pieces say is kept:

    .. UNIQ_KEY 01 | id | 02 .. __transactionId__ 01 | id | 02 ..     (or the other way round)

Whatever else the id cuts is read each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gantrymq.model import properties as props
from gantrymq_transaction.half_text import TRANSACTION_ID
from gantrymq_transaction.messages import asks_for_delay, real_queue
from gantrymq_transaction.rules import checks_of

__all__ = ["HalfTextReader", "ParsedHalf"]

KEPT: Final = 1024  # distinct texts
_IDS: Final = {name.encode() for name in (props.UNIQ_KEY, TRANSACTION_ID)}


class ParsedHalf(NamedTuple):
    """What a text says."""

    own: Mapping[str, str]  # its properties, where it was kept without those two; read-only
    queue: tuple[str, int] | None  # topic and queue id that it is meant for
    checks: int  # how often its producer was asked


class HalfTextReader:
    """Reads them."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], ParsedHalf] = {}

    def of(self, text: bytes, unique_id: str) -> ParsedHalf:
        """What *text* says. *unique_id* is where it is cut; a wrong one costs time and nothing else."""
        pieces = tuple(text.split(unique_id.encode())) if unique_id.isalnum() else ()
        return self._known.get(pieces) or self._read(text, pieces)

    def _read(self, text: bytes, pieces: tuple[bytes, ...]) -> ParsedHalf:
        own = props.decode(text)
        found = ParsedHalf(own, real_queue(own), checks_of(own))
        if _kept(pieces) and not asks_for_delay(own):  # whose text changes with all of its properties
            if len(self._known) >= KEPT:
                self._known.clear()
            others = {name: value for name, value in own.items() if name.encode() not in _IDS}
            self._known[pieces] = found._replace(own=others)
        return found


def _kept(pieces: Sequence[bytes]) -> bool:
    """Whether the id that cuts a text into *pieces* is the value of two properties, and nothing else."""
    if len(pieces) != 3 or pieces[1][:1] != b"\x02" or pieces[2][:1] != b"\x02":
        return False
    names = {piece.rpartition(b"\x02")[2][:-1] for piece in pieces[:2] if piece[-1:] == b"\x01"}
    return names == _IDS
