"""Many records at once, as NumPy columns over the bytes that hold them. Needs NumPy.

The record format is described in `gantrymq.formats.record`. Hosts of 8 or 20 bytes result in four layouts of the head;
records of one layout are gathered into one structured array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import numpy as np

from gantrymq.plugin.formats import HEAD_FIELDS, HEADS, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES
from gantrymq.plugin.sys_flag import BORN_HOST_V6, STORE_HOST_V6

_HOSTS = {"born_host": BORN_HOST_V6, "store_host": STORE_HOST_V6}
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
FORMAT = (MAGIC_V1, MAGIC_V2, BORN_HOST_V6, STORE_HOST_V6)  # for the compiled functions


def _letters(name: str, letters: str, bits: int) -> str:
    if name not in _HOSTS:
        return f">{letters.replace('i', 'i4').replace('I', 'u4').replace('q', 'i8')}"
    return "V20" if bits & _HOSTS[name] else "V8"


_LAYOUTS = [
    np.dtype([(name, _letters(name, letters, number << 4)) for name, letters in HEAD_FIELDS])
    for number in range(len(HEADS))
]
_HEAD_BYTES = [layout.itemsize for layout in _LAYOUTS]  # by the host bits, shifted down by four
assert [head.size for head in HEADS] == _HEAD_BYTES


def field_at(name: str) -> int:
    """Return the position of a field in the head of a record with IPv4 hosts."""
    at: int = _LAYOUTS[0].fields[name][1]  # type: ignore[index]
    return at


SYS_FLAG_AT = field_at("sys_flag")  # the same in all layouts


_START = struct.Struct(">iI")
_LONGEST_HEAD = max(_HEAD_BYTES)


def chain(view: memoryview, end: int, magics: tuple[int, ...] = (MAGIC_V1, MAGIC_V2)) -> list[int]:
    """Return the starts of consecutive records from position 0 to before *end*, as far as sizes and magics are valid.

    A record closer to the end of *view* than the longest head is left out.
    """
    starts: list[int] = []
    unpack, found, at, left = _START.unpack_from, starts.append, 0, len(view)
    last = min(end, left - _LONGEST_HEAD + 1)
    while at < last:
        size, magic = unpack(view, at)
        if magic not in magics or size < MIN_RECORD_BYTES or at + size > left:
            break
        found(at)
        at += size
    return starts


def right_crcs(view: memoryview, starts: Iterable[int], ends: Iterable[int], wanted: list[int]) -> int:
    """Return the number of bodies before the first whose CRC is not the wanted one."""
    sums = [crc32(view[start:end]) & 0x7FFFFFFF for start, end in zip(starts, ends, strict=True)]
    if sums == wanted:
        return len(wanted)
    return next(n for n, (one, other) in enumerate(zip(sums, wanted, strict=True)) if one != other)


def first_false(flags: Any) -> int:
    """Return the number of leading true flags."""
    bad = np.flatnonzero(~flags)
    return int(bad[0]) if len(bad) else len(flags)


def gather(data: Any, places: Any, length: int) -> Any:
    """Return *length* bytes from each of *places* in *data* (uint8), as items of that many bytes."""
    windows = np.ndarray(shape=(max(len(data) - length + 1, 0),), dtype=f"V{length}", buffer=data, strides=(1,))
    return windows[places]


class RecordFields:
    """Columns of the records that start at *at* in *data*, which must contain the complete head of each."""

    def __init__(self, data: Any, at: Any) -> None:
        """*data*: uint8; *at*: int64, ascending."""
        self.data = data
        self.at = at
        self._all = np.arange(len(at))
        flags = gather(data, at + SYS_FLAG_AT, 4).view(">i4")
        bits = (flags & _HOST_BITS) >> 4
        first = int(bits[0]) if len(bits) else 0
        if (bits == first).all():
            rows = {first: self._all}
        else:
            rows = {number: np.flatnonzero(bits == number) for number in np.unique(bits).tolist()}
        self._heads = {
            number: (chosen, gather(data, at[chosen], _HEAD_BYTES[number]).view(_LAYOUTS[number]))
            for number, chosen in rows.items()
        }
        self._columns: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.at)

    def column(self, name: str) -> Any:
        """Return a number of the head by its name in HEAD_FIELDS, in native byte order; int32, uint32 or int64."""
        found = self._columns.get(name)
        if found is None:
            kind = _LAYOUTS[0].fields[name][0].newbyteorder("=")  # type: ignore[index]
            found = np.empty(len(self.at), dtype=kind)
            for rows, head in self._heads.values():
                if len(rows) == len(found):
                    found[:] = head[name]
                else:
                    found[rows] = head[name]
            self._columns[name] = found
        return found

    def hosts(self, name: str) -> list[tuple[Any, Any]]:
        """Return a host as packed bytes: for each layout its rows, and a matrix with 8 or 20 bytes a row."""
        found = []
        for rows, head in self._heads.values():
            packed = np.ascontiguousarray(head[name])
            found.append((rows, packed.view(np.uint8).reshape(len(rows), -1)))
        return found

    def body_starts(self) -> Any:
        """Return the starts of bodies in the data."""
        sizes = np.empty(len(self.at), dtype=np.int64)
        for number, (rows, _) in self._heads.items():
            sizes[rows] = _HEAD_BYTES[number]
        return self.at + sizes

    def body_ends(self) -> Any:
        """Return the ends of bodies, where the lengths of topics follow."""
        return self.body_starts() + self.column("body_length")

    def ends(self) -> Any:
        """Return the ends of records."""
        return self.at + self.column("total_size")

    def topics(self, body_ends: Any) -> tuple[Any, Any]:
        """Return the starts and ends of topics; *body_ends* and the byte after each must be within the data."""
        wide = self.column("magic") == MAGIC_V2
        lengths = self.data[body_ends].astype(np.int64)
        if wide.any():
            low = self.data[body_ends + 1]
            lengths = np.where(wide, (lengths.astype(np.int8).astype(np.int64) << 8) | low, lengths)
        starts = body_ends + 1 + wide
        return starts, starts + lengths
