"""What of one file is in the page cache only: the durable content of every page that differs from it.

The files underneath hold what processes see. Beside them a `Node` keeps what a power cut would bring back:

    pages 0 .. n   | as on the disk | dirty: a sync writes it | lost: clean, and not on the disk | ...
    size           | the durable one, once it differs

Dirty pages become lost when they could not be written: Linux then counts them as clean, tells the error (`ErrorMark`)
and never writes them again, unless a process changes them. A process reads the lost content until the page is evicted.

`spoil` decides page by page, from a seed, whether the new content, the old, or sectors of both are on the disk. Of a
lost page it is the old.

Source: linux mm/filemap.c (mapping_set_error), Documentation/filesystems/vfs.rst (handling errors during writeback),
xfs fs/xfs/xfs_aops.c (xfs_end_ioend: a length that a failed write would have given is not written either).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from gantrymq.world import File
from gantrymq_storage_faults.errors_told import ErrorMark
from gantrymq_storage_faults.plan import Plan

__all__ = ["PAGE_BYTES", "Fate", "Node"]

PAGE_BYTES = 4096

Read = Callable[[int, int], bytes]  # length, position


class Fate:
    """Counts what became of pages that were not durable."""

    __slots__ = ("kept", "lost", "torn")

    def __init__(self) -> None:
        self.kept = self.lost = self.torn = 0


class Node:
    """One file, whatever its name."""

    __slots__ = ("blocks", "dirty", "errors", "old", "old_size", "opened", "path", "set_size")

    def __init__(self, path: Path, size: int) -> None:
        """A file that is durable as it is; *size* in bytes."""
        self.path = path
        self.old: dict[int, bytes] = {}  # page to its durable content, where the cache has another
        self.dirty: dict[int, None] = {}  # those of them that the next sync writes; the others are lost
        self.old_size: int | None = None  # bytes, None while the durable size is the present one
        self.set_size: int | None = None  # by truncate or allocate since: it needs no page to be written
        self.errors = ErrorMark()  # of writes that nobody waited for, or that failed in a sync
        self.opened = 0  # descriptors
        self.blocks = bytearray(b"\1") * -(-size // PAGE_BYTES)  # which pages take room; see `Room`

    @property
    def durable(self) -> bool:
        """Whether a power cut could take nothing."""
        return not self.old and self.old_size is None

    @property
    def lost(self) -> list[int]:
        """Pages that count as clean and are not on the disk."""
        return [page for page in self.old if page not in self.dirty]

    def touch(self, start: int, end: int, read: Read) -> None:
        """Bytes ``[start, end)`` are about to change; *read* still gives what is there."""
        if end <= start:
            return
        for page in range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            if page not in self.old:
                self.old[page] = read(PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
            self.dirty[page] = None

    def resize(self, size: int, length: int, read: Read, *, by_write: bool = False) -> None:
        """The size is about to change from *size* to *length*; *by_write*: because bytes are written behind the end."""
        if self.old_size is None and size != length:
            self.old_size = size
        if not by_write and size != length:
            self.set_size = length
        self.touch(length, size, read)

    def synced(self, size: int) -> None:
        """What was dirty is durable, lost pages are not; *size* is the present one."""
        if self.old_size is not None:
            durable_size = self._size_after_sync(size)
            self.old_size = None if durable_size == size else durable_size
            self.set_size = None
        for page in self.dirty:
            del self.old[page]
        self.dirty.clear()

    def failed(self, number: int, size: int) -> None:
        """Dirty pages could not be written: they are lost, and error *number* waits to be told."""
        behind = -(-size // PAGE_BYTES)  # what was cut off is no page any more
        self.dirty = {page: None for page in self.dirty if page >= behind}
        self.errors.set(number)

    def write_back(self, page: int, size: int) -> None:
        """The kernel has written a dirty page by itself; a length that it gave the file follows with the next sync."""
        if self.old_size is not None and page * PAGE_BYTES < size:
            known = self.set_size if self.set_size is not None else self.old_size
            self.set_size = max(known, min((page + 1) * PAGE_BYTES, size))
        del self.old[page], self.dirty[page]

    def write_back_failed(self, page: int, number: int) -> None:
        """The kernel could not: the page is lost."""
        del self.dirty[page]
        self.errors.set(number)

    def evict(self, page: int, file: File) -> None:
        """The kernel forgets a lost page: *file* shows the disk's. Without descriptors it forgets the error too."""
        start, old = page * PAGE_BYTES, self.old.pop(page)
        if start < file.size():
            file.pwrite(old[: file.size() - start], start)
        if not self.opened:
            self.errors = ErrorMark()

    def spoil(self, file: File, plan: Plan, rng: random.Random, fate: Fate) -> None:
        """Make *file* what the disk has after a power cut."""
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
        self.errors = ErrorMark()

    def _size_after_sync(self, size: int) -> int:
        """The length that a sync makes durable: as far as it was set, or written by pages that are dirty."""
        if self.old_size is None:
            return size
        known = self.set_size if self.set_size is not None else self.old_size
        return max([known, *(min((page + 1) * PAGE_BYTES, size) for page in self.dirty if page * PAGE_BYTES < size)])


def _torn(old: bytes, new: bytes, sector_bytes: int, rng: random.Random) -> bytes:
    """Sectors of both, in any mixture: a disk may write them in any order."""
    starts = range(0, PAGE_BYTES, sector_bytes)
    return b"".join(rng.choice((old, new))[at : at + sector_bytes] for at in starts)
