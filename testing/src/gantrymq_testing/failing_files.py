"""Files on a disk that dies: from a chosen call on, every call that changes something fails."""

from __future__ import annotations

import builtins
import errno
import os
from pathlib import Path

from gantrymq.world.files import DiskUse, File, Files, FileStat, Lock, Mapping, Volume


class FailingFiles:
    """`Files` that hands calls on until `fail_at`, and none that changes anything from there.

    ``done`` says whether the failing call itself still takes effect before it raises, as a rename does whose
    folder then cannot be synced.
    """

    def __init__(self, inner: Files, fail_at: int | None = None, *, done: bool = False) -> None:
        """*fail_at*: number of the first changing call that fails, from 0; None for never."""
        self._inner = inner
        self._fail_at = fail_at
        self._done = done
        self.changes = 0  # changing calls so far, failed ones included

    @property
    def failed(self) -> bool:
        """Whether a call has failed."""
        return self._fail_at is not None and self.changes > self._fail_at

    def begin(self) -> bool:
        """Count a changing call; whether it takes effect."""
        number = self.changes
        self.changes += 1
        return self._fail_at is None or number < self._fail_at or (self._done and number == self._fail_at)

    def end(self, path: Path | str) -> None:
        """Raise OSError (EIO) when the call just counted is to fail."""
        if self.failed:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def stat(self, path: Path) -> FileStat | None:
        """Works always, as do the other questions."""
        return self._inner.stat(path)

    def list(self, path: Path) -> builtins.list[str]:
        """Names in a folder."""
        return self._inner.list(path)

    def disk_use(self, path: Path) -> DiskUse:
        """Space on the file system."""
        return self._inner.disk_use(path)

    def read(self, path: Path) -> bytes:
        """The whole content."""
        return self._inner.read(path)

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Some bytes of a file."""
        return self._inner.peek(path, length, position)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> FailingFile:
        """With *create* a changing call; the file's own changes count too."""
        if create:
            if self.begin():
                self._inner.open(path, create=True).close()
            self.end(path)
        return FailingFile(self._inner.open(path, create=create, read_only=read_only), self)

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents."""
        if self.begin():
            self._inner.make_dirs(path)
        self.end(path)

    def replace(self, path: Path, data: bytes) -> None:
        """Replace *path* by *data*."""
        if self.begin():
            self._inner.replace(path, data)
        self.end(path)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file."""
        if self.begin():
            self._inner.rename(old, new)
        self.end(old)

    def remove(self, path: Path) -> None:
        """Unlink a file."""
        if self.begin():
            self._inner.remove(path)
        self.end(path)

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder."""
        if self.begin():
            self._inner.remove_dir(path)
        self.end(path)

    def sync_dir(self, path: Path) -> None:
        """Make names in the folder durable."""
        if self.begin():
            self._inner.sync_dir(path)
        self.end(path)

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """Create and lock a file."""
        held = self._inner.lock(path, content) if self.begin() else None
        self.end(path)
        return held

    def lock_folder(self, path: Path) -> Lock | None:
        """Lock a folder; works always."""
        return self._inner.lock_folder(path)

    def watch(self, folder: Path) -> Volume | None:
        """The file system; its syncs are changing calls."""
        volume = self._inner.watch(folder)
        return None if volume is None else FailingVolume(volume, folder, self)


class FailingVolume:
    """A `Volume` of `FailingFiles`."""

    def __init__(self, inner: Volume, folder: Path, files: FailingFiles) -> None:
        self._inner = inner
        self._folder = folder
        self._files = files

    def sync(self) -> None:
        """Make everything durable."""
        if self._files.begin():
            self._inner.sync()
        self._files.end(self._folder)

    def close(self) -> None:
        """End the watch."""
        self._inner.close()


class FailingFile:
    """A `File` of `FailingFiles`."""

    def __init__(self, inner: File, files: FailingFiles) -> None:
        self._inner = inner
        self._files = files

    @property
    def path(self) -> Path:
        """Where it was opened."""
        return self._inner.path

    def size(self) -> int:
        """Length in bytes."""
        return self._inner.size()

    def pread(self, length: int, position: int) -> bytes:
        """Up to *length* bytes."""
        return self._inner.pread(length, position)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """Up to *length* bytes, if they are in memory."""
        return self._inner.pread_cached(length, position)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of *data*."""
        if self._files.begin():
            self._inner.pwrite(data, position)
        self._files.end(self.path)

    def prefetch(self, position: int, length: int) -> None:
        """Works always, as does `drop_cache`: neither changes anything."""
        self._inner.prefetch(position, length)

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where something may have been written."""
        return self._inner.written(start, end)

    def drop_cache(self, position: int, length: int) -> None:
        """Let the system forget a range."""
        self._inner.drop_cache(position, length)

    def truncate(self, length: int) -> None:
        """Set the length."""
        if self._files.begin():
            self._inner.truncate(length)
        self._files.end(self.path)

    def allocate(self, length: int) -> None:
        """Reserve blocks."""
        if self._files.begin():
            self._inner.allocate(length)
        self._files.end(self.path)

    def datasync(self) -> None:
        """Make everything written so far durable."""
        if self._files.begin():
            self._inner.datasync()
        self._files.end(self.path)

    def map(self) -> Mapping:
        """Map the whole file; writes into the mapping do not fail, as they would not on a real disk."""
        return self._inner.map()

    def close(self) -> None:
        """Close the descriptor."""
        self._inner.close()
