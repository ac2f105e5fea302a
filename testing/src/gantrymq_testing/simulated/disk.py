"""What a simulated disk holds: file contents with the blocks they take, and the space that is left.

A content is an anonymous mapping, so that a sparse file of gigabytes costs only the pages that were touched. Which
4 KiB blocks a file takes is kept apart: reading a hole takes none, writing or reserving one does, and a disk without
room for it refuses.
"""

from __future__ import annotations

import errno
import mmap
import os

BLOCK_BYTES = 4096


class BusError(RuntimeError):
    """A write through a mapping hit a hole on a full disk: the operating system would end the process with SIGBUS."""


class Disk:
    """Room, in bytes; whole blocks are taken and given back."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0

    def take(self, blocks: int) -> None:
        """Take *blocks*. Raises OSError (ENOSPC), having taken none."""
        if self.used + blocks * BLOCK_BYTES > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += blocks * BLOCK_BYTES

    def give_back(self, blocks: int) -> None:
        """Free *blocks*."""
        self.used -= blocks * BLOCK_BYTES


class Content:
    """The bytes of one file, whatever its names. Lives while it has a name, a descriptor or a mapping."""

    def __init__(self, disk: Disk, modified_ms: int) -> None:
        self.size = 0
        self.modified_ms = modified_ms
        self.memory = mmap.mmap(-1, BLOCK_BYTES)  # as long as the file, or longer; zero behind its end
        self.mappings = 0
        self.locked = False
        self._disk = disk
        self._blocks = bytearray()  # one byte a block: 1 where it takes room
        self._holders = 0

    def hold(self) -> None:
        """One more name, descriptor or mapping."""
        self._holders += 1

    def let_go(self) -> None:
        """One less; with the last the room is free again."""
        self._holders -= 1
        if self._holders == 0:
            self._disk.give_back(self._blocks.count(1))
            self._blocks.clear()

    def read(self, position: int, length: int) -> bytes:
        """Up to *length* bytes; shorter at the end."""
        return self.memory[position : max(position, min(position + length, self.size))]

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of *data*, growing where needed. Raises OSError (ENOSPC), having written nothing."""
        if data:
            self.reserve(position, len(data))
            self.memory[position : position + len(data)] = data

    def reserve(self, position: int, length: int) -> None:
        """Take the blocks of a range and let the file reach its end. Raises OSError (ENOSPC), changing nothing."""
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
        """Cut, giving blocks back, or grow by a hole."""
        if length < self.size:
            self.memory[length : self.size] = bytes(self.size - length)
            kept = -(-length // BLOCK_BYTES)
            self._disk.give_back(self._blocks.count(1, kept))
            del self._blocks[kept:]
        else:
            self._make_room(length)
        self.size = length

    def _make_room(self, length: int) -> None:
        """Move to a longer memory, which a mapping in use cannot follow."""
        if length <= len(self.memory):
            return
        if self.mappings:
            raise OSError(errno.EBUSY, "a simulated file does not grow while it is mapped")
        longer = mmap.mmap(-1, max(length, 2 * self.size))
        longer[: self.size] = self.memory[: self.size]
        self.memory = longer
