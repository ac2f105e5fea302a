"""One index file while it is filled: slots in memory, entries made in batches, in the order in which they are written.

Nothing here does I/O. Who writes the file puts the bytes that `IndexTable.put` returns at their place, then the header.
Slots are written now and then, those that changed (`IndexTable.take_dirty`), because they can be had from here and made
again from the entries (`IndexTable.mend`).

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

__all__ = ["PAGE_SLOTS", "IndexTable", "Put", "SlotRun"]

PAGE_SLOTS = 1024  # slots that are written together: 4 KiB


class SlotRun(NamedTuple):
    """Slots that stand side by side."""

    first: int  # number of the first one
    length: int  # how many


class Put(NamedTuple):
    """Entries that were added: where they belong, and what was there before."""

    first: int  # number of the first one
    entries: bytes  # as the file holds them
    taken: int  # how many keys of those asked for
    header: IndexHeader  # before


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
    """Make the entries of these keys, the first with *number*, and note them in their slots.

    Returns:
        The entries as a file holds them; begin timestamp and used slots, as they are then.
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
        if number <= 1:  # this entry's seconds counted from the file before
            begin, stamp = now, -1
        number += 1
    return b"".join(packed), begin, used


put_entries = _put_entries if speedups.compiled is None else speedups.compiled.put_entries


class IndexTable:
    """Header and slots of one file."""

    def __init__(self, layout: IndexLayout, header: IndexHeader) -> None:
        """Go on from *header*; slots are empty until `load` says otherwise, and take memory as they are touched."""
        self.layout = layout
        self.header = header
        self.dirty_pages: set[int] = set()  # numbers of runs of PAGE_SLOTS slots that the file does not hold yet
        self._slots = _empty_slots(layout.slots)

    def load(self, first: int, data: bytes) -> int:
        """Take over slots from *first* on, as a file holds them; returns the largest."""
        if data == bytes(len(data)):
            return 0
        slots = _swapped(array("i", data))
        self._slots[first : first + len(slots)] = slots
        return max(slots)

    @property
    def full(self) -> bool:
        """Whether no entry fits any more."""
        return self.header.index_count >= self.layout.entries

    def put(self, hashes: Sequence[int], log_offsets: Sequence[int], timestamps: Sequence[int], start: int = 0) -> Put:
        """Add keys from *start* on, as many as fit.

        Args:
            hashes: of each key.
            log_offsets: where each key's message starts in the log.
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
            timestamps[last],
            log_offsets[start] if before.index_count <= 1 else before.begin_offset,
            log_offsets[last],
            used,
            number + taken,
        )
        return Put(number, entries, taken, before)

    def undo(self, put: Put) -> None:
        """Take the newest *put* back: it could not be written."""
        for key_hash, _, _, previous in reversed(list(ENTRY.iter_unpack(put.entries))):
            self._slots[key_hash % self.layout.slots] = previous
        self.header = put.header

    def take_dirty(self) -> list[SlotRun]:
        """The slots that the file does not hold, in whole pages; they count as written from now on."""
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
        """The file does not hold *runs* after all."""
        for run in runs:
            self.dirty_pages.update(range(run.first // PAGE_SLOTS, (run.first + run.length - 1) // PAGE_SLOTS + 1))

    def mend(self, chunks: Iterable[bytes]) -> None:
        """Make every slot again; pages that come out different from what was loaded are dirty. 0.3 us an entry.

        Args:
            chunks: the entries of the file in order, from number 1 on, some at a time.
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
        """What the slot of *key_hash* holds."""
        return self._slots[key_hash % self.layout.slots]

    def slot_bytes(self, first: int, count: int) -> bytes:
        """Slots from *first* on as the file holds them; fewer at the end."""
        return _swapped(array("i", bytes(self._slots[first : first + count]))).tobytes()


def _empty_slots(count: int) -> memoryview:
    """So many zeros. Memory of the system's: a ``bytearray`` of 20 MB would be filled, 15 ms without a pause."""
    return memoryview(mmap.mmap(-1, count * SLOT_BYTES)).cast("i")


def _swapped(numbers: array[int]) -> array[int]:
    """Between this machine's order of bytes and the files'; changes *numbers*."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
