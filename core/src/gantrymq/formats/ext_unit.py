"""Extension units: additional data of a queue entry, passed to filters."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["MIN_UNIT_BYTES", "ExtUnit"]

MIN_UNIT_BYTES: Final = 20


class ExtUnit(NamedTuple):
    """Extension of one queue entry, stored in consumequeue_ext."""

    tags_code: int
    store_timestamp: int  # ms
    bits: bytes = b""

    @property
    def size(self) -> int:
        """Size of the packed unit in bytes."""
        return MIN_UNIT_BYTES + len(self.bits)
