"""Files, syncs, renames, locks.

Paths are `pathlib.Path`. A test may record each call of a method, let it fail or stop the process there. Methods are
synchronous. Slow ones (``datasync``, ``allocate``, ``remove`` of large files, ``pread`` of cold data, ``prefetch``,
``Volume.sync``) must be run in `Workers` to keep the loop responsive.

Files cannot be mapped: a read error under a mapping ends the process without a message, and a page fault on cold data
stops the loop.

A new name is durable once its parent folder was synced. A synced file is lost if the name of its folder is lost in a
power failure (`make_durable_dirs`).
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple, Protocol

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether *error* means that the disk or quota is full, a temporary condition."""
    return isinstance(error, OSError) and error.errno in _FULL


class FileStat(NamedTuple):
    """Status of a path."""

    size: int  # bytes
    modified_ms: int
    is_dir: bool
    mode: int  # permission bits, such as 0o640
    is_own: bool = True  # it belongs to the user of this process
    is_link: bool = False  # the path is a symbolic link; the other values are those of its target


class DiskUsage(NamedTuple):
    """Space of the file system of a path, in bytes."""

    total: int
    free: int  # free blocks, including the reserve of root
    usable: int  # available to this process

    @property
    def used_share(self) -> float:
        """The used share, 0 to 1, of what this process could use in total, as df prints it."""
        used = self.total - self.free
        whole = used + self.usable
        return used / whole if whole > 0 else 0.0


class Lock(Protocol):
    """An exclusive lock held by this process."""

    def release(self) -> None:
        """Release the lock; the file stays. May be called repeatedly."""


class Volume(Protocol):
    """The file system of a folder, with error detection since `Files.watch`."""

    def sync(self) -> None:
        """Make all files and names of the file system durable. May take long.

        Raises:
            OSError: the sync failed, or some file could not be written since the last sync or the start of the watch.
                The kernel reports such an error once and marks the pages as clean, also those of closed files.
        """

    def close(self) -> None:
        """End the watch. May be called repeatedly."""


class File(Protocol):
    """An open file.

    Calls on a closed file raise OSError (EBADF). It must not be closed while a worker is inside a call.
    """

    @property
    def path(self) -> Path:
        """Path under which it was opened."""

    def size(self) -> int:
        """Return the length in bytes."""

    def pread(self, length: int, position: int) -> bytes:
        """Read *length* bytes from *position*; fewer only at the end of the file."""

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """Read like `pread` from the page cache; None if that would wait for the disk, or is not supported."""

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of *data* at *position*. Raises OSError (ENOSPC, EIO, EROFS)."""

    def prefetch(self, position: int, length: int) -> None:
        """Read a range into the page cache in the background, if the platform supports it."""

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[start, end)`` that may have been written, in order; the rest is zeros.

        The whole range is returned if the platform does not support it. Reads and the kernel's read-ahead make ranges
        count as written, so call this before reading.
        """

    def drop_cache(self, position: int, length: int) -> None:
        """Drop a range from the page cache: whole clean pages. No data is lost."""

    def truncate(self, length: int) -> None:
        """Set the length; new bytes are zero and take no space."""

    def allocate(self, length: int) -> None:
        """Reserve blocks for ``[0, length)`` and extend the file to *length*. Raises OSError if the disk is full.

        The content is kept. If the platform cannot reserve, zeros are written after the current end.
        """

    def datasync(self) -> None:
        """Make everything written so far durable."""

    def close(self) -> None:
        """Close the descriptor. May be called repeatedly."""


class FileReader(Protocol):
    """Reading whole files, folders and file systems."""

    def stat(self, path: Path) -> FileStat | None:
        """Return the status of *path*, or None if it does not exist."""

    def list(self, path: Path) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""

    def read(self, path: Path) -> bytes:
        """Return the whole content. Raises FileNotFoundError."""

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Open a file for one read of up to *length* bytes from *position*. Return None if it does not exist.

        Unwritten zeros at the end may be omitted. The path may be a string, as creating a `Path` takes longer than such
        a read.
        """

    def disk_use(self, path: Path) -> DiskUsage:
        """Return the space of the file system of *path* (or of its nearest existing parent)."""


class FileTree(FileReader, Protocol):
    """Reading and changing whole files and folders; what code for configuration and state files needs."""

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents, if missing."""

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        """Write *data* under a temporary name, sync it, rename it over *path* and sync the folder.

        *mode* is the new file's permission bits, such as 0o600 for secrets; None for those of any new file.
        The temporary name is *path* with ``.tmp`` appended, as in RocketMQ; the next call overwrites a leftover of an
        interrupted one. On an error *path* is unchanged. The folder must exist.
        """

    def rename(self, old: Path, new: Path) -> None:
        """Rename atomically within one file system, replacing *new*."""

    def link(self, old: Path, new: Path) -> None:
        """Give the file *old* a second name *new*, a hard link: both names have the same content from then on.

        Raises:
            FileNotFoundError: *old* is missing, or the folder of *new*.
            FileExistsError: *new* exists.
            OSError: EXDEV for another file system; EPERM, EMLINK or ENOTSUP if links are not supported.
        """

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder, if it exists. Raises OSError (ENOTEMPTY)."""

    def sync_dir(self, path: Path) -> None:
        """Make the names in the folder durable."""


class FileLocks(Protocol):
    """Locks that exclude other processes."""

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """Create *path* with *content* and lock its first byte. Return None if this or another process holds it.

        The lock is compatible with Java's ``FileChannel.tryLock(0, 1, false)``, so it excludes Java brokers and is
        excluded by theirs (apache/rocketmq store/.../DefaultMessageStore.java, start).
        """

    def lock_folder(self, path: Path) -> Lock | None:
        """Lock a folder against other calls of this method in all processes, without creating a file.

        Return None if it is held. Raises OSError if *path* is not a folder or locks are unsupported (ENOTSUP).
        """


class Files(FileTree, FileLocks, Protocol):
    """Access to the file system."""

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file; with *create* it is created if missing.

        Raises:
            FileNotFoundError: the file is missing and *create* is not set, or its folder is missing.
            IsADirectoryError: *path* is a folder.
            OSError: EBUSY if this process holds *path* through ``lock``: a POSIX lock is lost when any descriptor of
                its file is closed.
        """

    def watch(self, folder: Path) -> Volume | None:
        """Return the file system of *folder*, with failed writes detected from now on; None if unsupported."""


def make_durable_dirs(files: FileTree, path: Path) -> None:
    """Create the folder and its parents, and sync the names of the new ones.

    Raises:
        OSError: a folder cannot be created; FileExistsError if *path* is a file.
    """
    found = files.stat(path)
    if found is not None and found.is_dir:
        return
    missing: list[Path] = []
    above = path
    while files.stat(above) is None:
        missing.append(above)
        above = above.parent
    files.make_dirs(path)
    for folder in reversed(missing):
        files.sync_dir(folder.parent)
