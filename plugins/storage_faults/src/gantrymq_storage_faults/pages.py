"""What of one file is in the page cache only: the durable content of every page that was changed since the last sync.

The files underneath hold what the process sees. Beside them a `Node` keeps what a power cut would bring back:

    pages 0 .. n   | clean | dirty: the bytes on the disk | clean | ...
    size           | the durable one, once it differs

`spoil` decides page by page, from a seed, whether the new content, the old, or sectors of both are on the disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from gantrymq.world import File
from gantrymq_storage_faults.plan import Plan

__all__ = ["PAGE_BYTES", "Fate", "Node"]

PAGE_BYTES = 4096

Read = Callable[[int, int], bytes]  # length, position


class Fate:
    """Counts what became of dirty pages."""

    __slots__ = ("kept", "lost", "torn")

    def __init__(self) -> None:
        self.kept = self.lost = self.torn = 0


class Node:
    """One file, whatever its name."""

    __slots__ = ("blocks", "old", "old_size", "path")

    def __init__(self, path: Path, size: int) -> None:
        """A file that is durable as it is; *size* in bytes."""
        self.path = path
        self.old: dict[int, bytes] = {}  # page to its durable content
        self.old_size: int | None = None  # bytes, None while the durable size is the present one
        self.blocks = bytearray(b"\1") * -(-size // PAGE_BYTES)  # which pages take room; see `Room`

    @property
    def dirty(self) -> bool:
        """Whether a power cut could take something."""
        return bool(self.old) or self.old_size is not None

    def touch(self, start: int, end: int, read: Read) -> None:
        """Bytes ``[start, end)`` are about to change; *read* still gives what is there."""
        if end <= start:
            return
        for page in range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            if page not in self.old:
                self.old[page] = read(PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")

    def resize(self, size: int, length: int, read: Read) -> None:
        """The size is about to change from *size* to *length*."""
        if self.old_size is None and size != length:
            self.old_size = size
        self.touch(length, size, read)

    def synced(self) -> None:
        """Everything is durable."""
        self.old.clear()
        self.old_size = None

    def write_back(self, rng: random.Random) -> None:
        """One dirty page becomes durable as it is now."""
        if self.old:
            del self.old[rng.choice(list(self.old))]

    def spoil(self, file: File, plan: Plan, rng: random.Random, fate: Fate) -> None:
        """Make *file* what the disk has after a power cut."""
        size = file.size()
        if self.old_size is not None and rng.random() < plan.lose and self.old_size != size:
            size = self.old_size
            file.truncate(size)
        for page, old in sorted(self.old.items()):
            start = page * PAGE_BYTES
            if start >= size:
                fate.lost += 1
                continue
            new = file.pread(PAGE_BYTES, start).ljust(PAGE_BYTES, b"\0")
            draw = rng.random()
            if draw < plan.lose:
                content = old
                fate.lost += 1
            elif draw < plan.lose + plan.tear and plan.sector_bytes < PAGE_BYTES:
                content = _torn(old, new, plan.sector_bytes, rng)
                fate.torn += 1
            else:
                fate.kept += 1
                continue
            file.pwrite(content[: size - start], start)
        self.synced()


def _torn(old: bytes, new: bytes, sector_bytes: int, rng: random.Random) -> bytes:
    """Sectors of both, in any mixture: a disk may write them in any order."""
    starts = range(0, PAGE_BYTES, sector_bytes)
    return b"".join(rng.choice((old, new))[at : at + sector_bytes] for at in starts)
