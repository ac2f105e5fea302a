"""One index file on disk.

The file that takes entries has its slots in memory (`IndexTable`); entries and header are written with every batch,
slots when the file is sealed or the store stops. Until then a crash leaves slots that lag behind, which does no harm:
after a crash the newest file is set aside and built again, in RocketMQ as here.

The file is sparse, so a full disk shows as OSError of a write; nothing is written through a mapping.

Source: apache/rocketmq store/.../index/IndexFile.java.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gantrymq.formats.index import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexEntry,
    IndexHeader,
    IndexLayout,
    read_header,
    write_header,
)
from gantrymq.formats.index_table import PAGE_SLOTS, IndexTable, Put
from gantrymq.world import File, Files

__all__ = ["IndexFile", "Read"]

LOAD_SLOTS = 64 * 1024  # read at once
_WRITE_PAGES = 16  # 64 KiB of slots in one write

Read = Callable[[File, int, int], bytes]  # gives a length of bytes from a position of a file


class IndexFile:
    """A file that is open; the descriptor is its own."""

    def __init__(self, file: File, layout: IndexLayout, header: IndexHeader) -> None:
        """Take ownership of *file*."""
        self.file = file
        self.layout = layout
        self.table: IndexTable | None = None  # while the disk does not hold all of it
        self.durable = True  # nothing was written since the last sync
        self._header = header

    @classmethod
    def create(cls, files: Files, path: Path, layout: IndexLayout, header: IndexHeader) -> IndexFile:
        """Make a file at full size, sparse, whose first header is *header*.

        Raises:
            OSError: there is no room; the file is gone again.
        """
        file = files.open(path, create=True)
        try:
            file.truncate(layout.file_bytes)
            file.pwrite(write_header(header), 0)
        except BaseException:
            file.close()
            files.remove(path)
            raise
        made = cls(file, layout, header)
        made.table = IndexTable(layout, header)
        made.durable = False
        return made

    @classmethod
    def open(cls, files: Files, path: Path, layout: IndexLayout) -> IndexFile:
        """Open an existing file, of the right length."""
        file = files.open(path)
        try:
            return cls(file, layout, read_header(file.pread(HEADER_BYTES, 0)))
        except BaseException:
            file.close()
            raise

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.file.path

    @property
    def header(self) -> IndexHeader:
        """What it holds by now."""
        return self.table.header if self.table is not None else self._header

    @property
    def taken_bytes(self) -> int:
        """What it takes of the disk, at most: entries, and a page for each slot in use until all pages are."""
        header, slots = self.header, self.layout.slots
        return HEADER_BYTES + min(header.used_slots * PAGE_SLOTS, slots) * SLOT_BYTES + header.index_count * ENTRY_BYTES

    @property
    def full(self) -> bool:
        """Whether no entry fits any more."""
        return self.header.index_count >= self.layout.entries

    def load(self) -> None:
        """Read the slots, to go on from there. Blocks for the 20 MB that Java's default size has."""
        table = IndexTable(self.layout, self._header)
        for first in range(0, self.layout.slots, LOAD_SLOTS):
            count = min(LOAD_SLOTS, self.layout.slots - first)
            table.load(first, self.file.pread(count * SLOT_BYTES, self.layout.slot_at(first)))
        self.table = table

    def write(self, put: Put) -> None:
        """Write the entries of *put*, and the header that counts them.

        Raises:
            OSError: there is no room, or the disk failed; the caller takes *put* back.
        """
        self.durable = False
        self.file.pwrite(put.entries, self.layout.entry_at(put.first))
        self.file.pwrite(write_header(self.header), 0)

    def settle(self) -> None:
        """Write the slots and make everything durable. Blocks; nothing is added meanwhile.

        Raises:
            OSError: that failed, and can be tried again.
        """
        if self.table is not None:
            pages = sorted(self.table.dirty_pages)
            first = 0
            while first < len(pages):
                behind = first + 1
                while (
                    behind < len(pages) and pages[behind] == pages[first] + behind - first < pages[first] + _WRITE_PAGES
                ):
                    behind += 1
                slot = pages[first] * PAGE_SLOTS
                data = self.table.slot_bytes(slot, (behind - first) * PAGE_SLOTS)
                self.file.pwrite(data, self.layout.slot_at(slot))
                first = behind
            self.file.pwrite(write_header(self.table.header), 0)
        self.file.datasync()

    def settled(self) -> None:
        """The disk holds all of it: *settle* succeeded."""
        self.durable = True
        if self.table is not None:
            self.table.dirty_pages.clear()
            if self.full:
                self._header, self.table = self.table.header, None

    def newest(self, key_hash: int) -> int | None:
        """What the slot of *key_hash* holds, None when that is on the disk only."""
        return self.table.newest(key_hash) if self.table is not None else None

    def slot(self, key_hash: int, read: Read) -> int:
        """What the disk holds in the slot of *key_hash*."""
        at = self.layout.slot_at(key_hash % self.layout.slots)
        return int(SLOT.unpack(read(self.file, SLOT_BYTES, at))[0])

    def entry(self, number: int, read: Read) -> IndexEntry:
        """An entry by its number, from 1."""
        return IndexEntry._make(ENTRY.unpack(read(self.file, ENTRY_BYTES, self.layout.entry_at(number))))

    def close(self) -> None:
        """Close the descriptor."""
        self.file.close()
