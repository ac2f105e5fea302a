"""Names and folders of the operating system's file systems."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat as mode_bits
import sys
import threading
from pathlib import Path

from gantrymq.world.files import DiskUsage, FileStat
from gantrymq.world.real import lock as locks
from gantrymq.world.real.file import RealFile, pread, sync_descriptor, written
from gantrymq.world.real.volume import RealVolume, watch_volume

PAGE_BYTES = 4096
BINARY = getattr(os, "O_BINARY", 0)  # Windows translates line ends without it


class RealFiles:
    """`Files` over ``os``. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._replacing = threading.Lock()  # the temporary name of a path is one for all threads

    def stat(self, path: Path) -> FileStat | None:
        """What is there, or None where nothing is."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStat(found.st_size, found.st_mtime_ns // 1_000_000, mode_bits.S_ISDIR(found.st_mode))

    def list(self, path: Path) -> list[str]:
        """Names in a folder, sorted; empty where there is no folder."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents; fine if it exists."""
        os.makedirs(path, exist_ok=True)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> RealFile:
        """Open an existing file, or with *create* make it if absent."""
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | (os.O_CREAT if create else 0) | BINARY
        descriptor = os.open(path, flags, 0o666)
        status = os.fstat(descriptor)
        if mode_bits.S_ISDIR(status.st_mode):  # POSIX opens folders for reading
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        lock = locks.held_of(status)  # looked for now, and not by the path before, which would cost as much again
        if lock is not None:
            lock.keep(descriptor)
            raise OSError(errno.EBUSY, "locked by this process; closing it again would lose the lock", str(path))
        return RealFile(path, descriptor, read_only=read_only)

    def read(self, path: Path) -> bytes:
        """The whole content. Raises FileNotFoundError."""
        held = locks.held(path)
        return path.read_bytes() if held is None else held.content()

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Up to *length* bytes of a file from *position*; None where there is no file.

        Of a long range only what was written is read: most of a queue's file is a hole.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | BINARY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            if length > PAGE_BYTES:
                ranges = written(descriptor, position, position + length)
                length = ranges[-1][1] - position if ranges else 0
            return pread(descriptor, length, position)
        finally:
            os.close(descriptor)

    def replace(self, path: Path, data: bytes) -> None:
        """Write ``<path>.tmp``, sync it, rename it over *path* and sync the folder."""
        temporary = path.with_name(path.name + ".tmp")
        with self._replacing:
            try:
                _write_synced(temporary, data)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        self.sync_dir(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Move atomically within one file system, replacing *new*."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Unlink a file; fine if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder; fine if it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def sync_dir(self, path: Path) -> None:
        """Make names in the folder durable; nothing where the system cannot open folders (Windows)."""
        if sys.platform != "win32":
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # "fsync makes no sense here": some network file systems
                    raise
            finally:
                os.close(descriptor)

    def lock(self, path: Path, content: bytes) -> locks.RealLock | None:
        """Create *path* with *content* and lock its first byte; None when it is held, by this process too."""
        return locks.acquire(path, content)

    def lock_folder(self, path: Path) -> locks.FolderLock | None:
        """Lock a folder; None when it is held, by this process too."""
        return locks.acquire_folder(path)

    def watch(self, folder: Path) -> RealVolume | None:
        """The file system of *folder*; None where there is no ``syncfs``."""
        return watch_volume(folder)

    def disk_use(self, path: Path) -> DiskUsage:
        """Space on the file system of *path* (or of its nearest existing parent)."""
        while not path.exists() and path != path.parent:
            path = path.parent
        if sys.platform == "win32":
            usage = shutil.disk_usage(path)
            return DiskUsage(usage.total, usage.free, usage.free)
        else:  # the branch keeps mypy from calling this unreachable on Windows
            found = os.statvfs(path)
            unit = found.f_frsize
            return DiskUsage(found.f_blocks * unit, found.f_bfree * unit, found.f_bavail * unit)


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)
