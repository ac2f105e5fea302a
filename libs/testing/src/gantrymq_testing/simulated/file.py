"""An open file of the simulated disk, and its mapping."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from gantrymq_testing.simulated.disk import BusError, Content

Note = Callable[[str, Path, int, bytes | bytearray | memoryview], None]  # kind, path, position, data

_RELEASED = memoryview(b"")
_RELEASED.release()


class SimulatedMapping:
    """Shares the memory of its file. ``size`` is in bytes, ``view`` is read-only and invalid after ``close``."""

    def __init__(self, path: Path, content: Content, note: Note, now_ms: Callable[[], int], *, read_only: bool) -> None:
        self.size = content.size
        self.view = memoryview(content.memory).toreadonly()[: content.size]
        self._path = path
        self._content = content
        self._note = note
        self._now_ms = now_ms
        self._read_only = read_only
        self._closed = False
        content.mappings += 1
        content.hold()

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Copy *data* to *position*.

        Raises:
            IndexError: the range is not inside the file.
            BusError: the disk is full and a block is written for the first time.
        """
        if self._closed:
            raise ValueError("mmap closed or invalid")
        if self._read_only:
            raise TypeError("mmap can't modify a readonly memory map.")
        if position < 0 or position + len(data) > self.size:
            raise IndexError(f"write of {len(data)} bytes at {position}, mapped are {self.size}")
        self._note("file.write", self._path, position, data)
        try:
            self._content.write(position, data)
        except OSError as error:
            raise BusError(f"{self._path} at {position}: {error.strerror}") from error
        self._content.modified_ms = self._now_ms()

    def close(self) -> None:
        """Drop the mapping; existing slices of the view keep the memory."""
        if not self._closed:
            self._closed = True
            view, self.view = self.view, _RELEASED
            self._content.mappings -= 1
            self._content.let_go()
            try:
                view.release()
            except BufferError:
                return  # a slice of the view still exists


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
        """Set the length. Raises OSError (EBUSY) to grow a mapped file, which this disk cannot."""
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

    def map(self) -> SimulatedMapping:
        """Map the whole file. Raises ValueError when it is empty."""
        content = self._content()
        if content.size == 0:
            raise ValueError("cannot mmap an empty file")
        return SimulatedMapping(self._path, content, self._note, self._now_ms, read_only=self._read_only)

    def datasync(self) -> None:
        """Record the sync; nothing can be lost here."""
        self._content()
        self._note("file.datasync", self._path, 0, b"")

    def close(self) -> None:
        """Close the descriptor; mappings remain."""
        content, self._open = self._open, None
        if content is not None:
            content.let_go()

    def _content(self, *, for_writing: bool = False) -> Content:
        if self._open is None or (for_writing and self._read_only):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        return self._open
