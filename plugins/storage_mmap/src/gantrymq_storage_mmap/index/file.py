"""One index file on disk.

The file that receives entries has its slots in memory (`IndexTable`). Entries and header are written with every batch,
slots with a checkpoint (`index.checkpoint`). After a crash the file is cut at the last successful checkpoint, so that
header and slots have the values of that time.

The file is sparse, so a full disk shows up as OSError of a write; nothing is written through a mapping.

Source: apache/rocketmq store/.../index/IndexFile.java.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gantrymq.plugin.world import File, Files
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

# Slots per read, and per decoding step. A thread releases the interpreter's lock after half a millisecond of computing,
# but not within one call, and a read that releases it earlier may not let the event loop run: few reads, short steps.
_READ_SLOTS = 256 * 1024
_STEP_SLOTS = 8 * 1024
_LOAD_ENTRIES = 64 * 1024

Read = Callable[[File, int, int], bytes]  # (file, length, position) to bytes


class IndexPosition(NamedTuple):
    """The position in the log up to which messages are indexed."""

    log_offset: int  # everything before it is indexed
    keys: int = 0  # number of indexed keys of the message that starts there


class IndexFile:
    """An open index file; it owns its descriptor."""

    def __init__(self, file: File, layout: IndexLayout, header: IndexHeader) -> None:
        """Take ownership of *file*."""
        self.file = file
        self.layout = layout
        self.table: IndexTable | None = None  # set while the disk does not hold the complete file
        self.synced: IndexHeader | None = header  # durable state of the header; None if nothing is durable
        self.end = IndexPosition(0)  # position after the newest entry, once the file is full
        self.unsure = False  # an interrupted checkpoint may have written slots; cleared by `load`
        self._header = header

    @classmethod
    def create(cls, files: Files, path: Path, layout: IndexLayout, header: IndexHeader) -> IndexFile:
        """Create a file at full size, sparse, with *header* as its first header.

        Raises:
            OSError: the disk is full; the file is removed again.
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
        """Open an existing file of the right length."""
        file = files.open(path)
        try:
            return cls(file, layout, read_header(file.pread(HEADER_BYTES, 0)))
        except BaseException:
            file.close()
            raise

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    @property
    def header(self) -> IndexHeader:
        """The present header."""
        return self.table.header if self.table is not None else self._header

    @property
    def taken_bytes(self) -> int:
        """Upper estimate of its disk space: entries, and a page per used slot, at most all slots."""
        header, slots = self.header, self.layout.slots
        return HEADER_BYTES + min(header.used_slots * PAGE_SLOTS, slots) * SLOT_BYTES + header.index_count * ENTRY_BYTES

    @property
    def full(self) -> bool:
        """Whether no further entry fits."""
        return self.header.index_count >= self.layout.entries

    @property
    def durable(self) -> bool:
        """Whether everything is written and synced."""
        return self.synced == self.header and not (self.table is not None and self.table.dirty_pages)

    def cut(self, header: IndexHeader) -> None:
        """Cut the file back to *header*, which was durable; before `load`. Raises OSError."""
        if header != self._header:
            self.file.pwrite(write_header(header), 0)
            self._header, self.synced = header, None

    def load(self) -> None:
        """Read the slots, to add further entries. Blocks: 20 MB at Java's default size.

        If a slot refers to an entry that does not count, all slots are rebuilt from the valid entries, which takes
        about 6 s for a nearly full file of that size.
        """
        table, layout, count = IndexTable(self.layout, self._header), self.layout, self._header.index_count
        newest = 0
        for first in range(0, layout.slots, _READ_SLOTS):
            data = self.file.pread(min(_READ_SLOTS, layout.slots - first) * SLOT_BYTES, layout.slot_at(first))
            for start in range(0, len(data) // SLOT_BYTES, _STEP_SLOTS):
                step = data[start * SLOT_BYTES : (start + _STEP_SLOTS) * SLOT_BYTES]
                newest = max(newest, table.load(first + start, step))
        if newest >= count:
            table.rebuild(
                self.file.pread(min(_LOAD_ENTRIES, count - first) * ENTRY_BYTES, layout.entry_at(first))
                for first in range(1, count, _LOAD_ENTRIES)
            )
        self.table = table
        self.unsure = False

    def write(self, put: Put) -> None:
        """Write the entries of *put*, and the header that counts them.

        Raises:
            OSError: the disk is full or failed; the caller undoes *put*.
        """
        self.file.pwrite(put.entries, self.layout.entry_at(put.first))
        self.file.pwrite(write_header(self.header), 0)

    def write_slots(self, first: int, count: int) -> None:
        """Write slots from memory. Raises OSError."""
        assert self.table is not None
        self.file.pwrite(self.table.slot_bytes(first, count), self.layout.slot_at(first))

    def release(self) -> None:
        """Release the slots in memory if the disk holds all of a full file."""
        if self.table is not None and self.full and self.durable:
            self._header, self.table = self.table.header, None

    def newest(self, key_hash: int) -> int | None:
        """Return the content of the slot of *key_hash*, None if it is on the disk only."""
        return self.table.newest(key_hash) if self.table is not None else None

    def slot(self, key_hash: int, read: Read) -> int:
        """Return the content of the slot of *key_hash* on the disk."""
        at = self.layout.slot_at(key_hash % self.layout.slots)
        return int(SLOT.unpack(read(self.file, SLOT_BYTES, at))[0])

    def entry(self, number: int, read: Read) -> IndexEntry:
        """Return an entry by its number, from 1."""
        return IndexEntry._make(ENTRY.unpack(read(self.file, ENTRY_BYTES, self.layout.entry_at(number))))

    def close(self) -> None:
        """Close the descriptor."""
        self.file.close()
