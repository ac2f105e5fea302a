"""Ext units: additional data about a message in ``consumequeue_ext``, next to its 20-byte queue entry. Big-endian.

    | unit size i16 | tags code i64 | store time i64 | bits length i16 | bits |

- Unit size counts the whole unit, 20 bytes and the bits. Units are contiguous in files of one size, each named by its
  first byte. No unit spans two files: if less than 4 bytes of its file would remain, an i16 of -1 marks the end of that
  file's units, and the unit starts the next file. After the last unit of the last file there are zeros.
- A queue entry refers to its unit by the address ``byte position - 2^63`` in place of the tags code. Every number below
  the range of int32 is an address; real tags codes are int32, deliver times are positive.
- The bits tell which consumers' filter expressions the message may match. They are set by filters; there may be none.

Source: apache/rocketmq store/.../ConsumeQueueExt.java (CqExtUnit, put, fullFillToEnd, isExtAddr, decorate).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gantrymq.errors import FormatError
from gantrymq.formats.dispatch_entry import MIN_UNIT_BYTES, ExtUnit
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
TAIL_BYTES = 4  # bytes that a file reserves for the end mark
END_OF_UNITS = _SIZE.pack(-1)


def ext_address(position: int) -> int:
    """Return the address in a queue entry of the unit at byte *position* of the queue's ext files."""
    return position - _ADDRESS_BASE


def ext_position(address: int) -> int:
    """Return the byte position of the unit with *address*.

    Raises:
        FormatError: *address* is a tags code.
    """
    if not is_ext_address(address):
        raise FormatError(f"{address} is a tags code, no address of an ext unit")
    return address + _ADDRESS_BASE


def pack_ext_unit(unit: ExtUnit) -> bytes:
    """Return the bytes of *unit*.

    Raises:
        FormatError: more than 32,747 bytes of bits.
    """
    if unit.size > MAX_UNIT_BYTES:
        raise FormatError(f"an ext unit of {unit.size} bytes; the longest has {MAX_UNIT_BYTES}")
    return _HEAD.pack(unit.size, unit.tags_code, unit.store_timestamp, len(unit.bits)) + unit.bits


def read_ext_unit(buf: bytes | bytearray | memoryview, position: int) -> ExtUnit | None:
    """Return the unit at *position* of one ext file; None at the end of its units: the mark, zeros or the file's end.

    Raises:
        FormatError: lengths do not add up, or the unit exceeds *buf*.
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
    """Add the units at *addresses* of one file to *found*; *data* is the file's content from address *start* on.

    Equivalent to `read_ext_unit` for each, in one loop; incomplete units are left out.
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
    """Return whether *data* consists of contiguous units of *size* bytes; budget 10 ns each."""
    head, count = _HEAD.pack(size, 0, 0, size - MIN_UNIT_BYTES), len(data) // size
    return len(data) == size * count and all(data[at::size] == head[at : at + 1] * count for at in (0, 1, 18, 19))


def iter_ext_units(buf: bytes | bytearray | memoryview, position: int = 0) -> Iterator[tuple[int, ExtUnit]]:
    """Yield position and unit, from *position* to the end of the units of this file.

    Raises:
        FormatError: see `read_ext_unit`, at the first invalid unit.
    """
    while (unit := read_ext_unit(buf, position)) is not None:
        yield position, unit
        position += unit.size
