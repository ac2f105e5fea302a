"""The timer wheel: for each second of two weeks, where the entries of that second stand in the timer log. Big-endian.

    slot, 32 bytes:  | due time / precision i64 | first position i64 | last position i64 | count i32 | 0 i32 |

    slot number = (due time / precision) modulo 1,209,600        (7 days of seconds, twice)

- A slot belongs to the time that it names. One that names another time (fourteen days before, or 0) is empty.
- The entries of a slot are a list: `last` is the newest, and each names the one before it; see `timer_log`.
- The count goes up with each entry, and down with each that takes a message back. It is for people and for limits.

Source: apache/rocketmq store/.../timer/TimerWheel.java, Slot.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["SLOTS", "SLOT_BYTES", "WHEEL_BYTES", "Slot", "decode_slot", "encode_slot", "slot_position", "slots_of"]

SLOTS = 7 * 24 * 3600 * 2
_SLOT = struct.Struct(">qqqii")
SLOT_BYTES = _SLOT.size
WHEEL_BYTES = SLOTS * SLOT_BYTES


class Slot(NamedTuple):
    """The entries of one time."""

    tick: int  # due time / precision
    first: int  # bytes from the start of the timer log, -1 without one
    last: int
    count: int = 0  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    magic: int = 0  # kept, and without meaning


def slot_position(tick: int) -> int:
    """Where in the file the slot of *tick* (due time / precision) begins, in bytes."""
    return tick % SLOTS * SLOT_BYTES


def decode_slot(data: bytes | memoryview, tick: int, at: int = 0) -> Slot | None:
    """The slot at byte *at* of *data*, or None where it has nothing for *tick*."""
    slot = Slot._make(_SLOT.unpack_from(data, at))
    return slot if slot.tick == tick > 0 and slot.last >= 0 else None


def encode_slot(slot: Slot) -> bytes:
    """Its 32 bytes."""
    return _SLOT.pack(*slot)


def slots_of(data: bytes | memoryview) -> Iterator[Slot]:
    """Every slot of a range of the file, empty ones included."""
    return map(Slot._make, _SLOT.iter_unpack(data))
