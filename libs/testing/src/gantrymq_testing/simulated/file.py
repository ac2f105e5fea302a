"""An open file of the simulated disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from gantrymq_testing.simulated.disk import Content

Note = Callable[[str, Path, int, bytes | bytearray | memoryview], None]  # kind, path, position, data


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
