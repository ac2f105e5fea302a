"""The timer wheel: for each second of two weeks, the positions of its entries in the timer log. Big-endian.

    slot, 32 bytes:  | due time / precision i64 | first position i64 | last position i64 | count i32 | 0 i32 |

    slot number = (due time / precision) modulo 1,209,600        (7 days of seconds, twice)

- A slot belongs to the time in its first field. A slot with another time (fourteen days before, or 0) is empty.
- The entries of a slot are a linked list: `last` is the newest, and each refers to the previous one; see `timer_log`.
- The count increases with each entry, and decreases with each cancellation. It serves statistics and limits.

Source: apache/rocketmq store/.../timer/TimerWheel.java, Slot.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

SLOTS = 7 * 24 * 3600 * 2
_SLOT = struct.Struct(">qqqii")
SLOT_BYTES = _SLOT.size
WHEEL_BYTES = SLOTS * SLOT_BYTES


class Slot(NamedTuple):
    """The entries of one time."""

    tick: int  # due time / precision
    first: int  # bytes from the start of the timer log, -1 without one
    last: int
    count: int = 0  # type: ignore[assignment]  # hides tuple.count, which is not used
    magic: int = 0  # preserved, without meaning


def slot_position(tick: int) -> int:
    """Return the byte position in the file of the slot of *tick* (due time / precision)."""
    return tick % SLOTS * SLOT_BYTES


def decode_slot(data: bytes | memoryview, tick: int, at: int = 0) -> Slot | None:
    """Return the slot at byte *at* of *data*, or None if it has no entries for *tick*."""
    slot = Slot._make(_SLOT.unpack_from(data, at))
    return slot if slot.tick == tick > 0 and slot.last >= 0 else None


def encode_slot(slot: Slot) -> bytes:
    """Return the 32 bytes of *slot*."""
    return _SLOT.pack(*slot)


def slots_of(data: bytes | memoryview) -> Iterator[Slot]:
    """Iterate over all slots of a range of the file, including empty ones."""
    return map(Slot._make, _SLOT.iter_unpack(data))
