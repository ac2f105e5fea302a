"""Files of the simulated disk: an open file, and file contents with their allocated blocks and the free space.

A content is an anonymous mapping, so that a sparse file of gigabytes only uses the memory of the touched pages. The
allocated 4 KiB blocks are tracked separately: reading a hole allocates none, writing or reserving does, and fails on a
full disk.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path

BLOCK_BYTES = 4096
Note = Callable[[str, Path, int, bytes | bytearray | memoryview], None]  # kind, path, position, data


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
        self.mode: int | None = None  # permission bits; None: those of every file
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


class SimulatedFile:
    """A descriptor: remains valid when the name is removed or renamed."""

    def __init__(self, path: Path, content: Content, note: Note, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self._path = path
        self._open: Content | None = content
        self._note = note
        self._now_ms = now_ms
        self._read_only = read_only
        content.hold()

    @property
    def path(self) -> Path:
        """The path it was opened with; a later rename is not followed."""
        return self._path

    def size(self) -> int:
        """Length in bytes."""
        return self._content().size

    def pread(self, length: int, position: int) -> bytes:
        """Return up to *length* bytes from *position*; fewer only at the end of the file."""
        content = self._content()
        if length < 0 or position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self._path))
        return content.read(position, length)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """Return None: this disk reports no cache, so readers use a thread."""
        self._content()
        return None

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of *data* at *position*. Raises OSError (ENOSPC, EBADF)."""
        content = self._content(for_writing=True)
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self._path))
        self._note("file.pwrite", self._path, position, data)
        content.write(position, data)
        content.modified_ms = self._now_ms()

    def prefetch(self, position: int, length: int) -> None:
        """Check that the file is open; there is no cache here."""
        self._content()

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the whole range: memory does not tell."""
        return [(start, end)]

    def drop_cache(self, position: int, length: int) -> None:
        """As `prefetch`."""
        self._content()

    def truncate(self, length: int) -> None:
        """Set the length."""
        content = self._content(for_writing=True)
        if length < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(self._path))
        self._note("file.truncate", self._path, length, b"")
        content.resize(length)
        content.modified_ms = self._now_ms()

    def allocate(self, length: int) -> None:
        """Reserve blocks for ``[0, length)``. Raises OSError (ENOSPC), ValueError below 0."""
        content = self._content(for_writing=True)
        if length < 0:
            raise ValueError(f"allocate {length} bytes")
        self._note("file.allocate", self._path, length, b"")
        if length:
            content.reserve(0, length)
            content.modified_ms = self._now_ms()

    def datasync(self) -> None:
        """Record the sync; nothing can be lost here."""
        self._content()
        self._note("file.datasync", self._path, 0, b"")

    def close(self) -> None:
        """Close the descriptor."""
        content, self._open = self._open, None
        if content is not None:
            content.let_go()

    def _content(self, *, for_writing: bool = False) -> Content:
        if self._open is None or (for_writing and self._read_only):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        return self._open
