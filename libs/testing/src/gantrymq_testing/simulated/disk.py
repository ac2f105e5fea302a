"""Contents of a simulated disk: file contents with their allocated blocks, and the free space.

A content is an anonymous mapping, so that a sparse file of gigabytes only uses the memory of the touched pages. The
allocated 4 KiB blocks are tracked separately: reading a hole allocates none, writing or reserving does, and fails on a
full disk.
"""

from __future__ import annotations

import errno
import mmap
import os

BLOCK_BYTES = 4096


class Disk:
    """Free space in bytes; allocated and released in whole blocks."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0

    def take(self, blocks: int) -> None:
        """Allocate *blocks*. Raises OSError (ENOSPC), having allocated none."""
        if self.used + blocks * BLOCK_BYTES > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += blocks * BLOCK_BYTES

    def give_back(self, blocks: int) -> None:
        """Free *blocks*."""
        self.used -= blocks * BLOCK_BYTES


class Content:
    """The bytes of one file, under all its names. Exists while it has a name or a descriptor."""

    def __init__(self, disk: Disk, modified_ms: int) -> None:
        self.size = 0
        self.modified_ms = modified_ms
        self.memory = mmap.mmap(-1, BLOCK_BYTES)  # at least as long as the file; zero after its end
        self.locked = False
        self._disk = disk
        self._blocks = bytearray()  # one byte per block: 1 if it is allocated
        self._holders = 0

    def hold(self) -> None:
        """Add a name or descriptor."""
        self._holders += 1

    def let_go(self) -> None:
        """Remove one; the last removal frees the space."""
        self._holders -= 1
        if self._holders == 0:
            self._disk.give_back(self._blocks.count(1))
            self._blocks.clear()

    def read(self, position: int, length: int) -> bytes:
        """Return up to *length* bytes; fewer at the end."""
        return self.memory[position : max(position, min(position + length, self.size))]

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of *data*, growing if needed. Raises OSError (ENOSPC), having written nothing."""
        if data:
            self.reserve(position, len(data))
            self.memory[position : position + len(data)] = data

    def reserve(self, position: int, length: int) -> None:
        """Allocate the blocks of a range and extend the file to its end. Raises OSError (ENOSPC), changing nothing."""
        self._make_room(position + length)
        first, last = position // BLOCK_BYTES, (position + length - 1) // BLOCK_BYTES
        if last >= len(self._blocks):
            self._blocks += bytes(last + 1 - len(self._blocks))
        missing = self._blocks.count(0, first, last + 1)
        if missing:
            self._disk.take(missing)
            self._blocks[first : last + 1] = b"\1" * (last + 1 - first)
        self.size = max(self.size, position + length)

    def resize(self, length: int) -> None:
        """Truncate, releasing blocks, or extend with a hole."""
        if length < self.size:
            self.memory[length : self.size] = bytes(self.size - length)
            kept = -(-length // BLOCK_BYTES)
            self._disk.give_back(self._blocks.count(1, kept))
            del self._blocks[kept:]
        else:
            self._make_room(length)
        self.size = length

    def _make_room(self, length: int) -> None:
        """Move to larger memory if needed."""
        if length <= len(self.memory):
            return
        longer = mmap.mmap(-1, max(length, 2 * self.size))
        longer[: self.size] = self.memory[: self.size]
        self.memory = longer
