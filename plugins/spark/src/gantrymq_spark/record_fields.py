"""The fields of many records at once, as NumPy columns over the bytes that hold them.

What a record looks like is said in `gantrymq.formats.record`; hosts of 8 or 20 bytes make four layouts of its head,
and records of one layout are gathered into one structured array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gantrymq.formats.record import HEAD_FIELDS, HEADS, MAGIC_V2
from gantrymq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = ["HEAD_BYTES", "RecordFields", "gather"]

_HOSTS = {"born_host": BORN_HOST_V6, "store_host": STORE_HOST_V6}
_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6


def _letters(name: str, letters: str, bits: int) -> str:
    if name not in _HOSTS:
        return f">{letters.replace('i', 'i4').replace('I', 'u4').replace('q', 'i8')}"
    return "V20" if bits & _HOSTS[name] else "V8"


_LAYOUTS = [
    np.dtype([(name, _letters(name, letters, number << 4)) for name, letters in HEAD_FIELDS])
    for number in range(len(HEADS))
]
HEAD_BYTES = [layout.itemsize for layout in _LAYOUTS]  # by the host bits, shifted down by four
assert [head.size for head in HEADS] == HEAD_BYTES
_SYS_FLAG_AT = _LAYOUTS[0].fields["sys_flag"][1]  # type: ignore[index]


def gather(data: Any, places: Any, length: int) -> Any:
    """*length* bytes from each of *places* in *data* (uint8), as items of that many bytes."""
    windows = np.ndarray(shape=(max(len(data) - length + 1, 0),), dtype=f"V{length}", buffer=data, strides=(1,))
    return windows[places]


class RecordFields:
    """Columns of the records that start at *at* in *data*; the whole head of each has to lie within."""

    def __init__(self, data: Any, at: Any) -> None:
        """*data*: uint8; *at*: int64, ascending."""
        self.data = data
        self.at = at
        self._all = np.arange(len(at))
        flags = gather(data, at + _SYS_FLAG_AT, 4).view(">i4")
        bits = (flags & _HOST_BITS) >> 4
        first = int(bits[0]) if len(bits) else 0
        if (bits == first).all():
            rows = {first: self._all}
        else:
            rows = {number: np.flatnonzero(bits == number) for number in np.unique(bits).tolist()}
        self._heads = {
            number: (chosen, gather(data, at[chosen], HEAD_BYTES[number]).view(_LAYOUTS[number]))
            for number, chosen in rows.items()
        }
        self._columns: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.at)

    def column(self, name: str) -> Any:
        """A number of the head, by its name in HEAD_FIELDS, in this machine's byte order; int32, uint32 or int64."""
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
        """A host's packed bytes: for each layout the rows that have it, and a matrix with 8 or 20 bytes in each row."""
        found = []
        for rows, head in self._heads.values():
            packed = np.ascontiguousarray(head[name])
            found.append((rows, packed.view(np.uint8).reshape(len(rows), -1)))
        return found

    def body_starts(self) -> Any:
        """Where bodies start in the data."""
        sizes = np.empty(len(self.at), dtype=np.int64)
        for number, (rows, _) in self._heads.items():
            sizes[rows] = HEAD_BYTES[number]
        return self.at + sizes

    def body_ends(self) -> Any:
        """Where bodies end, and the lengths of topics stand."""
        return self.body_starts() + self.column("body_length")

    def ends(self) -> Any:
        """Where records end."""
        return self.at + self.column("total_size")

    def topics(self, body_ends: Any) -> tuple[Any, Any]:
        """Where topics start and end; *body_ends* and the byte behind each have to lie within the data."""
        wide = self.column("magic") == MAGIC_V2
        lengths = self.data[body_ends].astype(np.int64)
        if wide.any():
            low = self.data[body_ends + 1]
            lengths = np.where(wide, (lengths.astype(np.int8).astype(np.int64) << 8) | low, lengths)
        starts = body_ends + 1 + wide
        return starts, starts + lengths
