"""Files that pass every call on through one method: the base of files that record, count or fail calls.

    class Counting(ForwardingFiles):
        def around(self, name, path, proceed, *, position=0, length=0):
            self.counts[name] += 1
            return proceed()

Objects returned by `open`, `watch` and the locks forward to the same `around`. Calls are named after their
methods, with these exceptions, so that a name is unambiguous:

    create          `Files.open` with *create*
    syncfs, unwatch `Volume.sync`, `Volume.close`
    release         `Lock.release`

`File.path` does not pass through it, as it makes no call.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gantrymq.world import DiskUsage, File, Files, FileStat, Lock, Volume

T = TypeVar("T")

Data = bytes | bytearray | memoryview

CHANGES = frozenset(
    {
        *("make_dirs", "create", "replace", "rename", "link", "remove", "remove_dir", "sync_dir", "lock"),
        *("pwrite", "truncate", "allocate", "datasync", "syncfs"),
    }
)
"""Names of calls that change or sync something."""
ENDS = frozenset({"close", "release", "unwatch"})
"""Names of calls that release an object returned by another call."""


class ForwardingFiles:
    """`Files` over other files; derive from it and override `around`."""

    def __init__(self, inner: Files) -> None:
        self._inner = inner

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Make one call; the default only makes the call.

        Args:
            name: of the call, see above.
            path: its subject; for ``rename`` and ``link`` the old one, for an object the one it was opened with.
            proceed: makes the call on the underlying files and returns, or raises, their result.
            position: bytes from the start of the file, if the call has one.
            length: bytes to write or read; the new length for ``truncate`` and ``allocate``.
        """
        return proceed()

    def began(self, handle: Handle) -> None:
        """Called before a file, volume or lock is returned."""

    def ended(self, handle: Handle) -> None:
        """Called before one of them is released; more than once if its user releases it repeatedly."""

    def stat(self, path: Path) -> FileStat | None:
        """As `Files.stat`."""
        return self.around("stat", path, lambda: self._inner.stat(path))

    def list(self, path: Path) -> builtins.list[str]:
        """As `Files.list`."""
        return self.around("list", path, lambda: self._inner.list(path))

    def make_dirs(self, path: Path) -> None:
        """As `Files.make_dirs`."""
        self.around("make_dirs", path, lambda: self._inner.make_dirs(path))

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        """As `Files.open`."""
        name = "create" if create else "open"
        opened = self.around(name, Path(path), lambda: self._inner.open(path, create=create, read_only=read_only))
        return ForwardingFile(opened, self)

    def read(self, path: Path) -> bytes:
        """As `Files.read`."""
        return self.around("read", path, lambda: self._inner.read(path))

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """As `Files.peek`."""
        return self.around(
            "peek",
            Path(path),
            lambda: self._inner.peek(path, length, position),
            position=position,
            length=length,
        )

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        """As `Files.replace`."""
        self.around("replace", path, lambda: self._inner.replace(path, data, mode), length=len(data))

    def rename(self, old: Path, new: Path) -> None:
        """As `Files.rename`."""
        self.around("rename", old, lambda: self._inner.rename(old, new))

    def link(self, old: Path, new: Path) -> None:
        """As `Files.link`."""
        self.around("link", old, lambda: self._inner.link(old, new))

    def remove(self, path: Path) -> None:
        """As `Files.remove`."""
        self.around("remove", path, lambda: self._inner.remove(path))

    def remove_dir(self, path: Path) -> None:
        """As `Files.remove_dir`."""
        self.around("remove_dir", path, lambda: self._inner.remove_dir(path))

    def sync_dir(self, path: Path) -> None:
        """As `Files.sync_dir`."""
        self.around("sync_dir", path, lambda: self._inner.sync_dir(path))

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """As `Files.lock`."""
        lock = self.around("lock", path, lambda: self._inner.lock(path, content), length=len(content))
        return None if lock is None else ForwardingLock(lock, path, self)

    def lock_folder(self, path: Path) -> Lock | None:
        """As `Files.lock_folder`."""
        lock = self.around("lock_folder", path, lambda: self._inner.lock_folder(path))
        return None if lock is None else ForwardingLock(lock, path, self)

    def watch(self, folder: Path) -> Volume | None:
        """As `Files.watch`."""
        volume = self.around("watch", folder, lambda: self._inner.watch(folder))
        return None if volume is None else ForwardingVolume(volume, folder, self)

    def disk_use(self, path: Path) -> DiskUsage:
        """As `Files.disk_use`."""
        return self.around("disk_use", path, lambda: self._inner.disk_use(path))


class Handle:
    """A returned object, until it is released."""

    def __init__(self, path: Path, files: ForwardingFiles, end: str, give_back: Callable[[], None]) -> None:
        """*end*: name of the call that releases it by *give_back*."""
        self._path = path
        self._files = files
        self._end = end
        self._give_back = give_back
        files.began(self)

    @property
    def path(self) -> Path:
        """The path it was opened with; a later rename is not followed."""
        return self._path

    @property
    def about(self) -> Path:
        """The path passed to `ForwardingFiles.around`."""
        return self._path

    def close(self) -> None:
        """Release it."""
        self._files.ended(self)
        self._files.around(self._end, self.about, self._give_back)


class ForwardingLock(Handle):
    """A `Lock` of `ForwardingFiles`."""

    def __init__(self, inner: Lock, path: Path, files: ForwardingFiles) -> None:
        super().__init__(path, files, "release", inner.release)

    def release(self) -> None:
        """As `Lock.release`."""
        self.close()


class ForwardingVolume(Handle):
    """A `Volume` of `ForwardingFiles`."""

    def __init__(self, inner: Volume, folder: Path, files: ForwardingFiles) -> None:
        super().__init__(folder, files, "unwatch", inner.close)
        self._inner = inner

    def sync(self) -> None:
        """As `Volume.sync`."""
        self._files.around("syncfs", self.about, self._inner.sync)


class ForwardingFile(Handle):
    """A `File` of `ForwardingFiles`."""

    def __init__(self, inner: File, files: ForwardingFiles) -> None:
        super().__init__(inner.path, files, "close", inner.close)
        self._inner = inner

    def size(self) -> int:
        """As `File.size`."""
        return self._files.around("size", self.about, self._inner.size)

    def pread(self, length: int, position: int) -> bytes:
        """As `File.pread`."""
        return self._files.around(
            "pread", self.about, lambda: self._inner.pread(length, position), position=position, length=length
        )

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """As `File.pread_cached`."""
        return self._files.around(
            "pread_cached",
            self.about,
            lambda: self._inner.pread_cached(length, position),
            position=position,
            length=length,
        )

    def pwrite(self, data: Data, position: int) -> None:
        """As `File.pwrite`."""
        self._files.around(
            "pwrite", self.about, lambda: self._inner.pwrite(data, position), position=position, length=len(data)
        )

    def prefetch(self, position: int, length: int) -> None:
        """As `File.prefetch`."""
        self._files.around(
            "prefetch", self.about, lambda: self._inner.prefetch(position, length), position=position, length=length
        )

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """As `File.written`."""
        return self._files.around(
            "written", self.about, lambda: self._inner.written(start, end), position=start, length=end - start
        )

    def drop_cache(self, position: int, length: int) -> None:
        """As `File.drop_cache`."""
        self._files.around(
            "drop_cache", self.about, lambda: self._inner.drop_cache(position, length), position=position, length=length
        )

    def truncate(self, length: int) -> None:
        """As `File.truncate`."""
        self._files.around("truncate", self.about, lambda: self._inner.truncate(length), length=length)

    def allocate(self, length: int) -> None:
        """As `File.allocate`."""
        self._files.around("allocate", self.about, lambda: self._inner.allocate(length), length=length)

    def datasync(self) -> None:
        """As `File.datasync`."""
        self._files.around("datasync", self.about, self._inner.datasync)
