"""One index file on disk.

The file that takes entries has its slots in memory (`IndexTable`); entries and header are written with every batch,
slots with a checkpoint (`index.mark`). What a crash leaves is cut at the last checkpoint that succeeded: header and
slots come to say again what they said then.

The file is sparse, so a full disk shows as OSError of a write; nothing is written through a mapping.

Source: apache/rocketmq store/.../index/IndexFile.java.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gantrymq.world import File, Files
from gantrymq_store_files.index import (
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
from gantrymq_store_files.index_table import PAGE_SLOTS, IndexTable, Put

__all__ = ["IndexFile", "IndexPosition", "Read"]

# Slots read at once, and taken over in a step. A thread gives up the interpreter's lock once it has computed for half a
# millisecond, but not within a call, and not to the event loop where a read gave it up sooner: few reads, short steps.
READ_SLOTS = 256 * 1024
STEP_SLOTS = 8 * 1024
LOAD_ENTRIES = 64 * 1024

Read = Callable[[File, int, int], bytes]  # gives a length of bytes from a position of a file


class IndexPosition(NamedTuple):
    """Up to where the log is indexed."""

    log_offset: int  # everything before it is
    keys: int = 0  # of the message that starts there, so many are


class IndexFile:
    """A file that is open; the descriptor is its own."""

    def __init__(self, file: File, layout: IndexLayout, header: IndexHeader) -> None:
        """Take ownership of *file*."""
        self.file = file
        self.layout = layout
        self.table: IndexTable | None = None  # while the disk does not hold all of it
        self.synced: IndexHeader | None = header  # as it is durable; None where nothing is
        self.end = IndexPosition(0)  # behind the newest entry, once the file is full
        self.unsure = False  # a checkpoint that was broken off may have written slots; until `load` has looked
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
        made.synced = None
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

    @property
    def durable(self) -> bool:
        """Whether nothing was written since the last sync, and nothing is left to be written."""
        return self.synced == self.header and not (self.table is not None and self.table.dirty_pages)

    def cut(self, header: IndexHeader) -> None:
        """Have the file end where *header* says, which was durable; before `load`. Raises OSError."""
        if header != self._header:
            self.file.pwrite(write_header(header), 0)
            self._header, self.synced = header, None

    def load(self) -> None:
        """Read the slots, to go on from there. Blocks for the 20 MB that Java's default size has.

        Where a slot names an entry that does not count, all are made again from those that do, which takes some 6 s
        for a file of that size that is nearly full.
        """
        table, layout, count = IndexTable(self.layout, self._header), self.layout, self._header.index_count
        newest = 0
        for first in range(0, layout.slots, READ_SLOTS):
            data = self.file.pread(min(READ_SLOTS, layout.slots - first) * SLOT_BYTES, layout.slot_at(first))
            for start in range(0, len(data) // SLOT_BYTES, STEP_SLOTS):
                step = data[start * SLOT_BYTES : (start + STEP_SLOTS) * SLOT_BYTES]
                newest = max(newest, table.load(first + start, step))
        if newest >= count:
            table.mend(
                self.file.pread(min(LOAD_ENTRIES, count - first) * ENTRY_BYTES, layout.entry_at(first))
                for first in range(1, count, LOAD_ENTRIES)
            )
        self.table = table
        self.unsure = False

    def write(self, put: Put) -> None:
        """Write the entries of *put*, and the header that counts them.

        Raises:
            OSError: there is no room, or the disk failed; the caller takes *put* back.
        """
        self.file.pwrite(put.entries, self.layout.entry_at(put.first))
        self.file.pwrite(write_header(self.header), 0)

    def write_slots(self, first: int, count: int) -> None:
        """Write slots as they are in memory. Raises OSError."""
        assert self.table is not None
        self.file.pwrite(self.table.slot_bytes(first, count), self.layout.slot_at(first))

    def release(self) -> None:
        """Let go of the slots, once the disk holds all of a full file."""
        if self.table is not None and self.full and self.durable:
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
