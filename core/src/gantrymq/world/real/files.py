"""File operations by path with the functions of ``os``, and ``syncfs``, which makes all files of a file system durable.

The descriptor for ``syncfs`` is opened at the start of the watch and kept open: Linux 5.8 and newer then reports every
failed write since, for any file, open or closed. ``fsync`` of a reopened file can miss such an error. ``ctypes`` is
imported for the first sync, as it takes about 5 ms.

Source: the Linux manual page syncfs(2).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat as mode_bits
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from gantrymq.world.files import DiskUsage, FileStat
from gantrymq.world.real import lock as locks
from gantrymq.world.real.file import RealFile, pread, sync_descriptor, written

_OWN_ID = os.geteuid() if hasattr(os, "geteuid") else 0  # st_uid is 0 on Windows


class RealVolume:
    """A file system, identified by the descriptor of a folder."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        """Take ownership of *descriptor*."""
        self._folder = folder
        self._fd = descriptor

    def sync(self) -> None:
        """See `gantrymq.world.files.Volume.sync`."""
        import ctypes

        if find_syncfs()(self._fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._folder))

    def close(self) -> None:
        """End the watch."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)


def watch_volume(folder: Path) -> RealVolume | None:
    """Watch the file system of the existing *folder*. Return None if ``syncfs`` does not report write errors.

    Raises:
        OSError: the folder cannot be opened.
    """
    if sys.platform != "linux" or kernel_release() < (5, 8):
        return None
    return RealVolume(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY))


@functools.cache
def kernel_release() -> tuple[int, int]:
    """Return major and minor version of the running kernel; zeros if unknown."""
    major, _, rest = os.uname().release.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


@functools.cache
def find_syncfs() -> Callable[[int], int]:
    """Return ``syncfs`` of the C library, which releases the GIL."""
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syncfs
    function.argtypes = (ctypes.c_int,)
    function.restype = ctypes.c_int
    found: Callable[[int], int] = function
    return found


PAGE_BYTES = 4096
BINARY = getattr(os, "O_BINARY", 0)  # without it Windows translates line ends


class RealFiles:
    """`Files` over ``os``. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._replacing = threading.Lock()  # threads share the temporary name of a path

    def stat(self, path: Path) -> FileStat | None:
        """Return the status of *path*, or None if it does not exist."""
        try:
            found = os.lstat(path)
            is_link = mode_bits.S_ISLNK(found.st_mode)
            if is_link:
                found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = found.st_mode
        modified_ms = found.st_mtime_ns // 1_000_000
        return FileStat(
            found.st_size,
            modified_ms,
            mode_bits.S_ISDIR(mode),
            mode_bits.S_IMODE(mode),
            is_own=found.st_uid == _OWN_ID,
            is_link=is_link,
        )

    def list(self, path: Path) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_dirs(self, path: Path) -> None:
        """Create the folder and its parents, if missing."""
        os.makedirs(path, exist_ok=True)

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> RealFile:
        """Open a file; with *create* it is created if missing."""
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | (os.O_CREAT if create else 0) | BINARY
        descriptor = os.open(path, flags, 0o666)
        status = os.fstat(descriptor)
        if mode_bits.S_ISDIR(status.st_mode):  # POSIX opens folders for reading
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        lock = locks.held_of(status)  # looked up by descriptor; by path it would cost another stat
        if lock is not None:
            lock.keep(descriptor)
            raise OSError(errno.EBUSY, "locked by this process; closing it again would lose the lock", str(path))
        return RealFile(path, descriptor, read_only=read_only)

    def read(self, path: Path) -> bytes:
        """Return the whole content. Raises FileNotFoundError."""
        held = locks.held(path)
        return path.read_bytes() if held is None else held.content()

    def peek(self, path: Path | str, length: int, position: int) -> bytes | None:
        """Read up to *length* bytes from *position*; None if the file does not exist.

        Only the written part of a long range is read, because most of a queue file is a hole.
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

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        """Write ``<path>.tmp``, sync it, rename it over *path* and sync the folder."""
        temporary = path.with_name(path.name + ".tmp")
        with self._replacing:
            try:
                # Synced before the rename: otherwise a crash could leave the new name with empty content.
                _write_synced(temporary, data, mode)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        # The rename itself is durable only with the folder.
        self.sync_dir(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Rename atomically within one file system, replacing *new*."""
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Create a hard link."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_dir(self, path: Path) -> None:
        """Remove an empty folder, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def sync_dir(self, path: Path) -> None:
        """Make the names in the folder durable; no effect on Windows, which cannot open folders."""
        if sys.platform != "win32":
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno != errno.EINVAL:  # unsupported by some network file systems
                    raise
            finally:
                os.close(descriptor)

    def lock(self, path: Path, content: bytes) -> locks.RealLock | None:
        """Create *path* with *content* and lock its first byte; None if this or another process holds it."""
        return locks.acquire(path, content)

    def lock_folder(self, path: Path) -> locks.FolderLock | None:
        """Lock a folder; None if this or another process holds it."""
        return locks.acquire_folder(path)

    def watch(self, folder: Path) -> RealVolume | None:
        """Return the file system of *folder*; None without ``syncfs``."""
        return watch_volume(folder)

    def disk_use(self, path: Path) -> DiskUsage:
        """Return the space of the file system of *path* (or of its nearest existing parent)."""
        while not path.exists() and path != path.parent:
            path = path.parent
        if sys.platform == "win32":
            import shutil

            usage = shutil.disk_usage(path)
            return DiskUsage(usage.total, usage.free, usage.free)
        else:  # without else, mypy reports unreachable code on Windows
            found = os.statvfs(path)
            unit = found.f_frsize
            return DiskUsage(found.f_blocks * unit, found.f_bfree * unit, found.f_bavail * unit)


def _write_synced(path: Path, data: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666 if mode is None else mode)
    try:
        if mode is not None:  # a leftover of an interrupted call keeps its own
            os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)
