"""Contents of one file that are in the page cache only: for every such page, its durable content.

The files underneath hold what processes see. A `Node` holds what a power cut would bring back:

    pages 0 .. n   | same as on the disk | dirty: a sync writes it | lost: clean, but not on the disk | ...
    size           | the durable size, if it differs

Dirty pages become lost when they cannot be written: Linux then counts them as clean, reports the error
(`ErrorSequence`) and never writes them again unless a process changes them. Processes read the lost content until the
page is evicted.

`discard_unsynced` decides page by page, from a seed, whether the new content, the old content or a mix of sectors of
both is on the disk. A lost page always has its old content.

Source: linux mm/filemap.c (mapping_set_error), Documentation/filesystems/vfs.rst (handling errors during writeback),
xfs fs/xfs/xfs_aops.c (xfs_end_ioend: a file length that depends on a failed write is not written either).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from gantrymq.plugin.world import File
from gantrymq_storage_faults.error_sequence import ErrorSequence
from gantrymq_storage_faults.plan import FaultPlan

PAGE_BYTES = 4096

Read = Callable[[int, int], bytes]  # length, position


class PageCounts:
    """Numbers of pages that a power cut kept, lost and tore."""

    __slots__ = ("kept", "lost", "torn")

    def __init__(self) -> None:
        self.kept = self.lost = self.torn = 0


class Node:
    """One file, independent of its name."""

    __slots__ = ("blocks", "dirty", "errors", "old", "old_size", "opened", "path", "set_size")

    def __init__(self, path: Path, size: int) -> None:
        """Create a node whose file is durable in its present state; *size* in bytes."""
        self.path = path
        self.old: dict[int, bytes] = {}  # page number to its durable content, if the cache differs
        self.dirty: dict[int, None] = {}  # the pages of `old` that the next sync writes; the others are lost
        self.old_size: int | None = None  # bytes, None while the durable size equals the present one
        self.set_size: int | None = None  # size set since by truncate or allocate; durable without a page being written
        self.errors = ErrorSequence()  # errors of background writes and of failed syncs
        self.opened = 0  # descriptors
        self.blocks = bytearray(b"\1") * -(-size // PAGE_BYTES)  # which pages use disk space; see `DiskSpace`

    @property
    def durable(self) -> bool:
        """Whether a power cut would lose nothing."""
        return not self.old and self.old_size is None

    @property
    def lost(self) -> list[int]:
        """Pages that count as clean but are not on the disk."""
        return [page for page in self.old if page not in self.dirty]

    def touch(self, start: int, end: int, read: Read) -> None:
        """Prepare a change of bytes ``[start, end)``; *read* still returns the old content."""
        if end <= start:
            return
        for page in range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            if page not in self.old:
                self.old[page] = read(PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
            self.dirty[page] = None

    def resize(self, size: int, length: int, read: Read, *, by_write: bool = False) -> None:
        """Prepare a change of the size from *size* to *length*; *by_write*: caused by a write beyond the end."""
        if self.old_size is None and size != length:
            self.old_size = size
        if not by_write and size != length:
            self.set_size = length
        self.touch(length, size, read)

    def synced(self, size: int) -> None:
        """Make dirty pages durable; lost pages stay lost. *size* is the present size."""
        if self.old_size is not None:
            durable_size = self._size_after_sync(size)
            self.old_size = None if durable_size == size else durable_size
            self.set_size = None
        for page in self.dirty:
            del self.old[page]
        self.dirty.clear()

    def failed(self, number: int, size: int) -> None:
        """Turn dirty pages into lost pages after a failed write, and record error *number*."""
        page_limit = -(-size // PAGE_BYTES)  # pages after the end no longer exist
        self.dirty = {page: None for page in self.dirty if page >= page_limit}
        self.errors.set(number)

    def write_back(self, page: int, size: int) -> None:
        """Record that the kernel wrote a dirty page; a length set by that page is durable after the next sync."""
        if self.old_size is not None and page * PAGE_BYTES < size:
            known = self.set_size if self.set_size is not None else self.old_size
            self.set_size = max(known, min((page + 1) * PAGE_BYTES, size))
        del self.old[page], self.dirty[page]

    def write_back_failed(self, page: int, number: int) -> None:
        """Record that the kernel could not write a page, which is now lost."""
        del self.dirty[page]
        self.errors.set(number)

    def evict(self, page: int, file: File) -> None:
        """Evict a lost page: *file* then shows the disk's content.

        If no descriptor is open, the error is forgotten too.
        """
        start, old = page * PAGE_BYTES, self.old.pop(page)
        if start < file.size():
            file.pwrite(old[: file.size() - start], start)
        if not self.opened:
            self.errors = ErrorSequence()

    def discard_unsynced(self, file: File, plan: FaultPlan, rng: random.Random, fate: PageCounts) -> None:
        """Change *file* to its content on the disk after a power cut."""
        size = file.size()
        if self.old_size is not None:
            kept = self._size_after_sync(size)
            if self.old_size != size and (rng.random() < plan.lose or kept == self.old_size):
                kept = self.old_size
            if kept != size:
                size = kept
                file.truncate(size)
        for page, old in sorted(self.old.items()):
            start = page * PAGE_BYTES
            if start >= size:
                fate.lost += 1
                continue
            new = file.pread(PAGE_BYTES, start).ljust(PAGE_BYTES, b"\0")
            draw = rng.random()
            if draw < plan.lose or page not in self.dirty:
                content = old
                fate.lost += 1
            elif draw < plan.lose + plan.tear and plan.sector_bytes < PAGE_BYTES:
                content = _torn(old, new, plan.sector_bytes, rng)
                fate.torn += 1
            else:
                fate.kept += 1
                continue
            file.pwrite(content[: size - start], start)
        self.old.clear()
        self.dirty.clear()
        self.old_size = self.set_size = None
        self.errors = ErrorSequence()

    def _size_after_sync(self, size: int) -> int:
        """Return the durable length after a sync: as set, or extended by dirty pages."""
        if self.old_size is None:
            return size
        known = self.set_size if self.set_size is not None else self.old_size
        return max([known, *(min((page + 1) * PAGE_BYTES, size) for page in self.dirty if page * PAGE_BYTES < size)])


def _torn(old: bytes, new: bytes, sector_bytes: int, rng: random.Random) -> bytes:
    """Return a random mixture of sectors of both: a disk may write them in any order."""
    starts = range(0, PAGE_BYTES, sector_bytes)
    return b"".join(rng.choice((old, new))[at : at + sector_bytes] for at in starts)
