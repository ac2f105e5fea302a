"""What a store may keep of a message besides its 20-byte queue entry; filters are shown it."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["MIN_UNIT_BYTES", "ExtUnit"]

MIN_UNIT_BYTES: Final = 20


class ExtUnit(NamedTuple):
    """What an ext file adds to a queue entry."""

    tags_code: int
    store_timestamp: int  # ms
    bits: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the packed unit."""
        return MIN_UNIT_BYTES + len(self.bits)
