"""Copies of files with a checksum, into a new folder; holes are neither read nor written.

A checksum covers a file up to its last byte that is not zero: log and queue files have their full size from the
beginning, and most of a queue file is a hole.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import StoreError
from gantrymq.plugin.world import File, Files, make_durable_dirs
from gantrymq_store_tools.backup_manifest import StoredFile

_CHUNK_BYTES = 1024 * 1024
_MANY_FILES = 1000  # more are made durable together with the rest of their file system
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_ZEROS = bytes(_CHUNK_BYTES)
_Advance = Callable[[int], None]


def _ignore(read_bytes: int) -> None:
    pass


class Sum(NamedTuple):
    """Size and checksum of a file."""

    size: int
    used: int  # bytes up to the last one that is not zero
    sha256: str  # of the used bytes


def read_summed(
    reading: File, target: File | None = None, length: int | None = None, advance: _Advance = _ignore
) -> Sum:
    """Read a file and return its sum; with *target* also copy it.

    Args:
        reading: the file to read.
        target: a new, empty file, which gets the same size.
        length: bytes to read; what follows counts, and is copied, as zeros. None for the whole file.
        advance: called with the number of bytes read.

    Raises:
        StoreError: *reading* cannot be read.
        OSError: *target* cannot be written.
    """
    size = reading.size()
    if target is not None:
        target.truncate(size)
    digest, used = hashlib.sha256(), 0
    for start, end in reading.written(0, size if length is None else min(size, length)):
        for at in range(start, end, _CHUNK_BYTES):
            try:
                data = reading.pread(min(_CHUNK_BYTES, end - at), at)
            except OSError as error:
                raise StoreError(f"{reading.path} cannot be read at byte {at}: {error}") from error
            advance(len(data))
            data = data.rstrip(b"\0")
            if not data:
                continue
            for _ in range((at - used) // _CHUNK_BYTES):
                digest.update(_ZEROS)
            digest.update(_ZEROS[: (at - used) % _CHUNK_BYTES])
            digest.update(data)
            used = at + len(data)
            if target is not None:
                target.pwrite(data, at)
    return Sum(size, used, digest.hexdigest())


class NewFolder:
    """Creates the files of a new folder. They are durable after `finish`."""

    def __init__(self, files: Files, root: Path) -> None:
        """Create the folder, which must not have any of the files yet. Raises OSError."""
        self.stored: dict[str, StoredFile] = {}  # by path relative to *root*
        self._files = files
        self._root = root
        self.linked = 0  # files that are hard links
        self._created: list[Path] = []
        self._folders: set[Path] = set()
        make_durable_dirs(files, root)
        self._volume = files.watch(root)

    def copy(self, source: Path, path: str, length: int | None = None, advance: _Advance = _ignore) -> Sum:
        """Copy the file *source* to *path*, see `read_summed`.

        Raises:
            FileNotFoundError: *source* does not exist; nothing was created.
            StoreError: *source* cannot be read.
            OSError: the disk failed, or is full.
        """
        reading = self._files.open(source, read_only=True)
        try:
            with self.creating(path) as file:
                found = read_summed(reading, file, length, advance)
        finally:
            reading.close()
        self.stored[path] = StoredFile(path, *found)
        return found

    @contextmanager
    def creating(self, path: str) -> Iterator[File]:
        """Create the file *path* and its folders; it is open while the body runs. Raises OSError."""
        whole = self._make_folder(path)
        file = self._files.open(whole, create=True)
        self._created.append(whole)
        try:
            yield file
        finally:
            file.close()

    def link(self, source: Path, path: str, known: Sum | None = None, advance: _Advance = _ignore) -> bool:
        """Create *path* as a hard link to the file *source*, whose content must not change any more.

        Args:
            known: the sum of *source* if it need not be read.

        Returns:
            False if the file system does not support it; nothing was created.

        Raises:
            FileNotFoundError: *source* does not exist; nothing was created.
            StoreError: *source* cannot be read.
            OSError: the disk failed, or is full.
        """
        whole = self._make_folder(path)
        try:
            self._files.link(source, whole)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        self._created.append(whole)
        if known is None:
            reading = self._files.open(whole, read_only=True)
            try:
                known = read_summed(reading, None, None, advance)
            finally:
                reading.close()
        self.stored[path] = StoredFile(path, *known)
        self.linked += 1
        return True

    def write(self, path: str, data: bytes) -> None:
        """Create the file *path* with the content *data*. Raises OSError."""
        with self.creating(path) as file:
            file.pwrite(data, 0)
        used = data.rstrip(b"\0")
        self.stored[path] = StoredFile(path, len(data), len(used), hashlib.sha256(used).hexdigest())

    def finish(self) -> None:
        """Make all files durable. Raises OSError."""
        if self._volume is not None and len(self._created) > _MANY_FILES:
            self._volume.sync()
            return
        for path in self._created:
            file = self._files.open(path)
            try:
                file.datasync()
            finally:
                file.close()
        for folder in sorted(self._folders):
            self._files.sync_dir(folder)

    def close(self) -> None:
        """Release the descriptor of the file system."""
        if self._volume is not None:
            self._volume.close()

    def _make_folder(self, path: str) -> Path:
        """Create the folder of *path*, and return the whole path."""
        whole = self._root / path
        folder = whole.parent
        if folder not in self._folders:
            self._files.make_dirs(folder)
            while folder not in self._folders and folder != self._root.parent:
                self._folders.add(folder)
                folder = folder.parent
        return whole
