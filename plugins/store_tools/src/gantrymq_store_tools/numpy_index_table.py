"""An index file during filling, with NumPy, for whole files; equivalent to `index_table.IndexTable` of store_files.

Entries of one slot are adjacent in a stable sort by slot, so the predecessor of each is the entry before it there, or
the previous content of the slot.
"""

from __future__ import annotations

from array import array
from importlib import import_module
from typing import Any, NamedTuple

from gantrymq_store_files.index import MAX_SECONDS, IndexHeader, IndexLayout, entry_seconds

__all__ = ["Added", "NumpyIndexTable"]

AT_ONCE = 256 * 1024  # keys


class Added(NamedTuple):
    """The result of adding keys."""

    first: int  # number of the first entry
    entries: bytes  # in file format
    taken: int  # number of keys that were added


class NumpyIndexTable:
    """Header and slots of one index file."""

    def __init__(self, layout: IndexLayout, header: IndexHeader) -> None:
        """Start a new file with *header*. Imports NumPy."""
        self._np: Any = import_module("numpy")
        self.layout = layout
        self.header = header
        self._slots = self._np.zeros(layout.slots, dtype=self._np.int32)
        self._entry = self._np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])

    @property
    def full(self) -> bool:
        """Whether the file is full."""
        return self.header.index_count >= self.layout.entries

    def put(self, hashes: array[int], log_offsets: array[int], timestamps: array[int], start: int = 0) -> Added:
        """Add keys from *start* on, as many as fit."""
        np, before = self._np, self.header
        first = before.index_count
        taken = max(min(len(hashes) - start, self.layout.entries - first, AT_ONCE), 0)
        if not taken:
            return Added(first, b"", 0)
        keys = np.frombuffer(hashes, dtype=np.int32)[start : start + taken]
        stored = np.frombuffer(timestamps, dtype=np.int64)[start : start + taken]
        places = np.frombuffer(log_offsets, dtype=np.int64)[start : start + taken]
        slots, numbers = keys % self.layout.slots, np.arange(first, first + taken, dtype=np.int32)
        order = np.argsort(slots, kind="stable")
        sorted_slots, sorted_numbers = slots[order], numbers[order]
        begins = np.concatenate(([True], sorted_slots[1:] != sorted_slots[:-1]))
        ends = np.concatenate((begins[1:], [True]))
        previous = np.concatenate(([0], sorted_numbers[:-1])).astype(np.int32)
        held = self._slots[sorted_slots[begins]]
        previous[begins] = held
        self._slots[sorted_slots[ends]] = sorted_numbers[ends]
        entries = np.empty(taken, dtype=self._entry)
        entries["hash"], entries["offset"] = keys, places
        entries["previous"][order] = previous
        begin = before.begin_timestamp if first > 1 else int(stored[0])
        if begin > 0:
            entries["seconds"] = np.clip((stored - begin) // 1000, 0, MAX_SECONDS)
        else:
            entries["seconds"] = 0
        if first <= 1:  # this entry's seconds count from the previous file's begin time
            entries["seconds"][0] = entry_seconds(int(stored[0]), before.begin_timestamp)
        self.header = IndexHeader(
            begin,
            max(before.end_timestamp, int(stored[-1])),
            int(places[0]) if first <= 1 else before.begin_offset,
            int(places[-1]),
            before.used_slots + int((held == 0).sum()),
            first + taken,
        )
        return Added(first, entries.tobytes(), taken)

    def slot_bytes(self, first: int, count: int) -> bytes:
        """Return *count* slots from *first* on in file format; fewer at the end."""
        found: bytes = self._slots[first : first + count].astype(">i4").tobytes()
        return found
