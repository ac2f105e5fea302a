"""Ext units: what ``consumequeue_ext`` keeps of a message besides its 20-byte queue entry, big-endian.

    | unit size i16 | tags code i64 | store time i64 | bits length i16 | bits |

- Unit size counts the whole unit, 20 bytes and the bits. Units lie back to back in files of one size, each named by its
  first byte. No unit spans two files: where it would leave less than 4 bytes of its file, an i16 of -1 marks the end of
  that file's units, and the unit starts the next file. Zeros stand behind the last unit of the last file.
- A queue entry names its unit by the address ``byte position - 2^63`` in place of the tags code. Every number below
  the range of int32 is an address; real tags codes are int32, deliver times are positive.
- The bits say which consumers' expressions the message may match. Filters make them; there may be none.

Source: apache/rocketmq store/.../ConsumeQueueExt.java (CqExtUnit, put, fullFillToEnd, isExtAddr, decorate).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gantrymq.errors import FormatError
from gantrymq.formats.ext_unit import MIN_UNIT_BYTES, ExtUnit
from gantrymq_store_files.queue_entry import is_ext_address

__all__ = [
    "END_OF_UNITS",
    "MAX_UNIT_BYTES",
    "MIN_UNIT_BYTES",
    "TAIL_BYTES",
    "ExtUnit",
    "are_units",
    "ext_address",
    "ext_position",
    "iter_ext_units",
    "pack_ext_unit",
    "read_ext_unit",
    "units_in",
]

_HEAD = struct.Struct(">hqqh")
_SIZE = struct.Struct(">h")
_ADDRESS_BASE = 1 << 63
MAX_UNIT_BYTES = 32767
TAIL_BYTES = 4  # a file keeps so many for the mark
END_OF_UNITS = _SIZE.pack(-1)


def ext_address(position: int) -> int:
    """What a queue entry holds for the unit at byte *position* of the queue's ext files."""
    return position - _ADDRESS_BASE


def ext_position(address: int) -> int:
    """Byte position of the unit that a queue entry names.

    Raises:
        FormatError: *address* is a tags code.
    """
    if not is_ext_address(address):
        raise FormatError(f"{address} is a tags code, no address of an ext unit")
    return address + _ADDRESS_BASE


def pack_ext_unit(unit: ExtUnit) -> bytes:
    """The bytes of *unit*.

    Raises:
        FormatError: more than 32,747 bytes of bits.
    """
    if unit.size > MAX_UNIT_BYTES:
        raise FormatError(f"an ext unit of {unit.size} bytes; the longest has {MAX_UNIT_BYTES}")
    return _HEAD.pack(unit.size, unit.tags_code, unit.store_timestamp, len(unit.bits)) + unit.bits


def read_ext_unit(buf: bytes | bytearray | memoryview, position: int) -> ExtUnit | None:
    """The unit at *position* of one ext file; None where its units end, by the mark, by zeros or by the file's end.

    Raises:
        FormatError: lengths that do not add up, or a unit that runs over the end of *buf*.
    """
    left = len(buf) - position
    if left < _SIZE.size:
        return None
    size = _SIZE.unpack_from(buf, position)[0]
    if size <= 0:
        return None
    if not MIN_UNIT_BYTES <= size <= left:
        raise FormatError(f"ext unit at {position}: size {size} where {MIN_UNIT_BYTES} to {left} is possible")
    _, tags_code, store_timestamp, length = _HEAD.unpack_from(buf, position)
    if length != size - MIN_UNIT_BYTES:
        raise FormatError(f"ext unit at {position}: {length} bytes of bits do not fit size {size}")
    return ExtUnit(tags_code, store_timestamp, bytes(buf[position + MIN_UNIT_BYTES : position + size]))


def units_in(data: bytes, addresses: Iterable[int], start: int, found: dict[int, ExtUnit]) -> None:
    """Add to *found* the units at *addresses* of one file, of which *data* has the bytes from address *start* on.

    The same as `read_ext_unit` for each, in one loop; what is no whole unit is left out.
    """
    end, unpack, make = len(data) - MIN_UNIT_BYTES, _HEAD.unpack_from, ExtUnit._make
    for address in addresses:
        at = address - start
        if at <= end:
            size, tags_code, store_timestamp, length = unpack(data, at)
            bits_at = at + MIN_UNIT_BYTES
            if length == size - MIN_UNIT_BYTES >= 0 and length <= end - at:
                found[address] = make((tags_code, store_timestamp, data[bits_at : bits_at + length]))


def are_units(data: bytes, size: int) -> bool:
    """Whether *data* is units of *size* bytes, one behind the other; budget 10 ns each."""
    head, count = _HEAD.pack(size, 0, 0, size - MIN_UNIT_BYTES), len(data) // size
    return len(data) == size * count and all(data[at::size] == head[at : at + 1] * count for at in (0, 1, 18, 19))


def iter_ext_units(buf: bytes | bytearray | memoryview, position: int = 0) -> Iterator[tuple[int, ExtUnit]]:
    """Position and unit, from *position* on until the units of this file end.

    Raises:
        FormatError: as `read_ext_unit`, at the first unit that is not whole.
    """
    while (unit := read_ext_unit(buf, position)) is not None:
        yield position, unit
        position += unit.size
