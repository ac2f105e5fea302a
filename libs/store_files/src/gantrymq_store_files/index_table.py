"""An index file while it is being filled: slots in memory, entries built in batches, in the order of writing.

This module does no I/O. The caller writes the bytes returned by `IndexTable.put` at their position, then the header.
Changed slots are written from time to time (`IndexTable.take_dirty`), because they are available in memory and can be
rebuilt from the entries (`IndexTable.rebuild`).

Source: apache/rocketmq store/.../index/IndexFile.java (putKey).
"""

from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gantrymq import speedups
from gantrymq_store_files.index import ENTRY, SLOT_BYTES, IndexHeader, IndexLayout, entry_seconds

PAGE_SLOTS = 1024  # slots that are written together: 4 KiB


class SlotRun(NamedTuple):
    """Consecutive slots."""

    first: int  # number of the first one
    length: int  # number of slots


class Put(NamedTuple):
    """Entries that were added, and the state before."""

    first: int  # number of the first one
    entries: bytes  # bytes for the file
    taken: int  # number of keys added
    header: IndexHeader  # before the entries were added


def _put_entries(
    slots: memoryview,
    number: int,
    begin: int,
    used: int,
    hashes: Sequence[int],
    log_offsets: Sequence[int],
    timestamps: Sequence[int],
    dirty_pages: set[int],
    page_slots: int,
) -> tuple[bytes, int, int]:
    """Build the entries of these keys, starting with *number*, and store them in their slots.

    Returns:
        The entries as bytes for the file; begin timestamp and used slots afterwards.
    """
    slot_count, pack = len(slots), ENTRY.pack
    packed: list[bytes] = []
    stamp, seconds = -1, 0
    for key_hash, log_offset, now in zip(hashes, log_offsets, timestamps, strict=True):
        if now != stamp:
            stamp, seconds = now, entry_seconds(now, begin)
        slot = key_hash % slot_count
        previous = slots[slot]
        if not 0 < previous <= number:
            previous = 0
            used += 1
        packed.append(pack(key_hash, log_offset, seconds, previous))
        slots[slot] = number
        dirty_pages.add(slot // page_slots)
        if number <= 1:  # the seconds of this entry count from the previous file
            begin, stamp = now, -1
        number += 1
    return b"".join(packed), begin, used


put_entries = _put_entries if speedups.compiled is None else speedups.compiled.put_entries


class IndexTable:
    """Header and slots of one file."""

    def __init__(self, layout: IndexLayout, header: IndexHeader) -> None:
        """Start from *header*; slots are empty before `load`, and use memory only when touched."""
        self.layout = layout
        self.header = header
        self.dirty_pages: set[int] = set()  # numbers of runs of PAGE_SLOTS slots to be written
        self._slots = _empty_slots(layout.slots)

    def load(self, first: int, data: bytes) -> int:
        """Set slots from *first* on from the bytes of a file; return the largest value."""
        if data == bytes(len(data)):
            return 0
        slots = _swapped(array("i", data))
        self._slots[first : first + len(slots)] = slots
        return max(slots)

    @property
    def full(self) -> bool:
        """Whether no further entry fits."""
        return self.header.index_count >= self.layout.entries

    def put(self, hashes: Sequence[int], log_offsets: Sequence[int], timestamps: Sequence[int], start: int = 0) -> Put:
        """Add keys from *start* on, as many as fit.

        Args:
            hashes: of each key.
            log_offsets: start of each key's message in the log.
            timestamps: store time of each key's message, ms.
            start: index of the first key to add.
        """
        layout, before = self.layout, self.header
        number = before.index_count
        taken = max(min(len(hashes) - start, layout.entries - number), 0)
        if not taken:
            return Put(number, b"", 0, before)
        part = slice(start, start + taken)
        entries, begin, used = put_entries(
            self._slots,
            number,
            before.begin_timestamp,
            before.used_slots,
            hashes[part],
            log_offsets[part],
            timestamps[part],
            self.dirty_pages,
            PAGE_SLOTS,
        )
        last = start + taken - 1
        self.header = IndexHeader(
            begin,
            max(before.end_timestamp, timestamps[last]),  # a delayed message may be older than the one before it
            log_offsets[start] if before.index_count <= 1 else before.begin_offset,
            log_offsets[last],
            used,
            number + taken,
        )
        return Put(number, entries, taken, before)

    def undo(self, put: Put) -> None:
        """Undo the newest *put*, because it could not be written."""
        for key_hash, _, _, previous in reversed(list(ENTRY.iter_unpack(put.entries))):
            self._slots[key_hash % self.layout.slots] = previous
        self.header = put.header

    def take_dirty(self) -> list[SlotRun]:
        """Return the changed slots in whole pages, and mark them as written."""
        pages, self.dirty_pages = sorted(self.dirty_pages), set()
        runs: list[SlotRun] = []
        first = 0
        for number, page in enumerate(pages, 1):
            if number == len(pages) or pages[number] != page + 1:
                start = pages[first] * PAGE_SLOTS
                runs.append(SlotRun(start, min((page + 1) * PAGE_SLOTS, self.layout.slots) - start))
                first = number
        return runs

    def give_back(self, runs: Iterable[SlotRun]) -> None:
        """Mark *runs* as changed again, because they could not be written."""
        for run in runs:
            self.dirty_pages.update(range(run.first // PAGE_SLOTS, (run.first + run.length - 1) // PAGE_SLOTS + 1))

    def rebuild(self, chunks: Iterable[bytes]) -> None:
        """Rebuild every slot from the entries; pages that differ from the loaded ones become dirty. 0.3 us an entry.

        Args:
            chunks: the entries of the file in order, from number 1 on, in parts.
        """
        made = _empty_slots(self.layout.slots)
        slot_count, number = len(made), 1
        for chunk in chunks:
            hashes = _swapped(array("i", chunk))[:: ENTRY.size // SLOT_BYTES]
            for place, key_hash in enumerate(hashes, number):
                made[key_hash % slot_count] = place
            number += len(hashes)
        for first in range(0, slot_count, PAGE_SLOTS):
            if made[first : first + PAGE_SLOTS] != self._slots[first : first + PAGE_SLOTS]:
                self.dirty_pages.add(first // PAGE_SLOTS)
        self._slots = made

    def newest(self, key_hash: int) -> int:
        """Return the content of the slot of *key_hash*."""
        return self._slots[key_hash % self.layout.slots]

    def slot_bytes(self, first: int, count: int) -> bytes:
        """Return *count* slots from *first* on as bytes for the file; fewer at the end."""
        return _swapped(array("i", bytes(self._slots[first : first + count]))).tobytes()


def _empty_slots(count: int) -> memoryview:
    """Return *count* zeros in mapped memory: filling a ``bytearray`` of 20 MB would block for 15 ms."""
    return memoryview(mmap.mmap(-1, count * SLOT_BYTES)).cast("i")


def _swapped(numbers: array[int]) -> array[int]:
    """Convert *numbers* in place between the byte order of this machine and of files; return them."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
