"""Files, mappings, syncs, renames, locks.

Paths are `pathlib.Path`. Every method below is one "call of Files": a test may record it, fail it or stop the world
at it, writes into a mapping included. Methods are synchronous; those that can take long (``datasync``, ``allocate``,
``remove`` of large files, ``pread`` of cold data, ``prefetch``, ``Mapping.lock``, ``Volume.sync``) are run through
`Workers` by whoever must not block the loop.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple, Protocol

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def is_disk_full(error: BaseException | None) -> bool:
    """Whether *error* says that a disk has no room, which passes by itself."""
    return isinstance(error, OSError) and error.errno in _FULL


class FileStat(NamedTuple):
    """What a look at a path tells."""

    size: int  # bytes
    modified_ms: int
    is_dir: bool


class DiskUsage(NamedTuple):
    """Space of the file system a path lies on, in bytes."""

    total: int
    free: int  # free blocks, root's reserve included
    usable: int  # what this process may take


class Lock(Protocol):
    """An exclusive lock held by this process."""

    def release(self) -> None:
        """Give the lock up; the file stays. Harmless the second time."""


class Volume(Protocol):
    """The file system that a folder lies on, watched from `Files.watch` on."""

    def sync(self) -> None:
        """Make every file and every name of the file system durable. May take long.

        Raises:
            OSError: that failed, or some file could not be written since the last sync, or since the watch began: the
                system tells such an error once and counts the pages as written, also those of files that are closed.
        """

    def close(self) -> None:
        """End the watch. Harmless the second time."""


class Mapping(Protocol):
    """A file in memory, shared with the page cache."""

    @property
    def size(self) -> int:
        """Length in bytes, fixed for the life of the mapping."""

    @property
    def view(self) -> memoryview:
        """Read-only view of the whole file; valid until ``close``. A slice keeps the memory alive."""

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Copy *data* (one-byte items) to *position*. Durable with ``File.datasync``, not before.

        Raises:
            IndexError: ``[position, position + len(data))`` is not inside the file; nothing was written.
            TypeError: the file was opened read-only.
            ValueError: the mapping is closed.
        """

    def lock(self) -> None:
        """Bring the whole file into memory and keep it there until the mapping is gone. May take long.

        Raises:
            OSError: ENOMEM or EPERM, more than this process may lock (``ulimit -l``); ENOSYS, the platform cannot.
            TypeError: the file was opened read-only.
            ValueError: the mapping is closed.
        """

    def close(self) -> None:
        """Drop the mapping. Slices of the view that are still held keep the memory; nothing is synced."""


class File(Protocol):
    """An open file.

    Calls on a closed file raise OSError (EBADF). Whoever closes it sees to it that no worker is still inside a call.
    """

    @property
    def path(self) -> Path:
        """Where it was opened."""

    def size(self) -> int:
        """Length in bytes."""

    def pread(self, length: int, position: int) -> bytes:
        """Up to *length* bytes from *position*; shorter only at the end of the file."""

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """As `pread`, if all of it is in memory; None where it would have to wait for the disk, or cannot tell."""

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of *data* at *position*. Raises OSError (ENOSPC, EIO, EROFS)."""

    def prefetch(self, position: int, length: int) -> None:
        """Have the system read a range into its cache, in the background; does nothing where it cannot."""

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of ``[start, end)`` where something may have been written, in order; elsewhere are zeros.

        All of it where the platform cannot tell. A read makes its range count as written, and what the system reads
        ahead of it: ask before reading.
        """

    def drop_cache(self, position: int, length: int) -> None:
        """Let the system forget a range; whole pages that are clean and in no mapping go. Nothing is lost."""

    def truncate(self, length: int) -> None:
        """Set the length; new bytes read as zero and take no space. Not below the end of a mapping in use."""

    def allocate(self, length: int) -> None:
        """Reserve blocks for ``[0, length)`` and set the length at least to it. Raises OSError when there is no room.

        Content stays. Where the platform cannot reserve, zeros are written behind the present end instead.
        """

    def map(self) -> Mapping:
        """Map the whole file, for writing too unless it was opened read-only. Raises ValueError when it is empty."""

    def datasync(self) -> None:
        """Make everything written so far durable, mapped writes included."""

    def close(self) -> None:
        """Close the descriptor; mappings live on. Harmless the second time."""


class Files(Protocol):
    """The only way to the disk."""

    def stat(self, path: Path) -> FileStat | None:
        """What is there, or None where nothing is."""

    def list(self, path: Path) -> list[str]:
        """Names in a folder, sorted; empty where there is no folder."""

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents; fine if it exists."""

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        """Open an existing file, or with *create* make it if absent.

        Raises:
            FileNotFoundError: it is absent and *create* is not set, or its folder is absent.
            IsADirectoryError: *path* is a folder.
            OSError: EBUSY, this process holds *path* through ``lock``: a POSIX lock dies when any descriptor of its
                file is closed.
        """

    def read(self, path: Path) -> bytes:
        """The whole content. Raises FileNotFoundError."""

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Up to *length* bytes of a file from *position*, opened for this one read; None where there is no file.

        Zeros at their end that nobody wrote may be left off. A path may be text here: making a `Path` takes longer
        than such a read.
        """

    def replace(self, path: Path, data: bytes) -> None:
        """Write *data* under a temporary name, sync it, rename it over *path* and sync the folder.

        The temporary name is *path* with ``.tmp`` added, RocketMQ's own; what an interrupted call left there is
        overwritten by the next. On an error *path* is as it was. The folder must exist.
        """

    def rename(self, old: Path, new: Path) -> None:
        """Move atomically within one file system, replacing *new*."""

    def remove(self, path: Path) -> None:
        """Unlink a file; fine if it is gone."""

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder; fine if it is gone. Raises OSError (ENOTEMPTY)."""

    def sync_dir(self, path: Path) -> None:
        """Make names in the folder durable."""

    def lock(self, path: Path, content: bytes) -> Lock | None:
        """Create *path* with *content* and lock its first byte; None when another process, or this one, holds it.

        The lock is the one Java's ``FileChannel.tryLock(0, 1, false)`` takes, so a Java broker sees it and ours sees a
        Java broker's (apache/rocketmq store/.../DefaultMessageStore.java, start).
        """

    def lock_folder(self, path: Path) -> Lock | None:
        """Lock a folder against other processes that ask the same, and against this one; nothing is put into it.

        None when it is held. Raises OSError where it is no folder, or the platform cannot (ENOTSUP).
        """

    def watch(self, folder: Path) -> Volume | None:
        """The file system of *folder*, whose failed writes are noticed from now on; None where the platform cannot."""

    def disk_use(self, path: Path) -> DiskUsage:
        """Space on the file system of *path* (or of its nearest existing parent)."""
