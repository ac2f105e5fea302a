"""Cached parsing of the properties of half messages.

Half messages of one producer mostly differ in their unique id only, which occurs twice. So a text is split at the id
that the producer sent, and the parsed properties are cached by the remaining pieces:

    .. UNIQ_KEY 01 | id | 02 .. __transactionId__ 01 | id | 02 ..     (or the other way round)

A text with any other occurrence of the id is not cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gantrymq.plugin import properties as props
from gantrymq_transaction.half_text import TRANSACTION_ID
from gantrymq_transaction.messages import asks_for_delay, real_queue
from gantrymq_transaction.rules import checks_of

_KEPT: Final = 1024  # distinct texts
_IDS: Final = {name.encode() for name in (props.UNIQ_KEY, TRANSACTION_ID)}


class ParsedHalf(NamedTuple):
    """Parsed properties of a half message."""

    own: Mapping[str, str]  # its properties, without the two ids if cached; read-only
    queue: tuple[str, int] | None  # target topic and queue id
    checks: int  # number of checks sent


class HalfTextReader:
    """Parses the properties of half messages."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], ParsedHalf] = {}

    def of(self, text: bytes, unique_id: str) -> ParsedHalf:
        """Parse *text*. *unique_id* is used as the cache separator; a wrong one only costs time."""
        pieces = tuple(text.split(unique_id.encode())) if unique_id.isalnum() else ()
        return self._known.get(pieces) or self._read(text, pieces)

    def _read(self, text: bytes, pieces: tuple[bytes, ...]) -> ParsedHalf:
        own = props.decode(text)
        found = ParsedHalf(own, real_queue(own), checks_of(own))
        if _kept(pieces) and not asks_for_delay(own):  # a delayed message is encoded from all its properties
            if len(self._known) >= _KEPT:
                self._known.clear()
            others = {name: value for name, value in own.items() if name.encode() not in _IDS}
            self._known[pieces] = found._replace(own=others)
        return found


def _kept(pieces: Sequence[bytes]) -> bool:
    """Return whether the id between *pieces* is exactly the value of the two id properties."""
    if len(pieces) != 3 or pieces[1][:1] != b"\x02" or pieces[2][:1] != b"\x02":
        return False
    names = {piece.rpartition(b"\x02")[2][:-1] for piece in pieces[:2] if piece[-1:] == b"\x01"}
    return names == _IDS
