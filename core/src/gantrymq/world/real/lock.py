"""Locks on the first byte of a file, compatible with other processes, Java's included.

On POSIX, Java's ``FileLock`` is an ``fcntl`` record lock, as here. Such locks never conflict within one process, and
are lost as soon as the process closes *any* descriptor of the file. The table of held locks handles both. On Windows
``msvcrt.locking`` locks the same byte range.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

TAKEN = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})  # errors if another process holds it

# struct flock of 64-bit Linux; other platforms have another order and are not queried
_FLOCK = struct.Struct("@hhqqi4x")

_guard = threading.Lock()
_held: dict[tuple[int, int], RealLock] = {}  # by device and inode, to find it by any path


class RealLock:
    """A file lock of this process, held until `release` or the end of the process."""

    def __init__(self, key: tuple[int, int], descriptor: int) -> None:
        self._key = key
        self._fd = descriptor
        self._others: list[int] = []

    def keep(self, descriptor: int) -> None:
        """Keep another descriptor of the file open until `release`, as closing it would release the lock."""
        self._others.append(descriptor)

    def release(self) -> None:
        """Release the lock; the file stays."""
        with _guard:
            if self._fd >= 0:
                _unlock(self._fd)
                for descriptor in (self._fd, *self._others):
                    os.close(descriptor)
                self._fd, self._others = -1, []
                del _held[self._key]

    def content(self) -> bytes:
        """Return the content of the file without opening it again."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        return os.read(self._fd, os.fstat(self._fd).st_size)


def acquire(path: Path, content: bytes) -> RealLock | None:
    """Create *path* with synced *content* and lock byte 0. Return None if this or another process holds it.

    Raises:
        OSError: the file cannot be created or written.
    """
    with _guard:
        # Before the file is opened: closing that descriptor again would release the lock.
        if _find(path) is not None:
            return None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if not _try_lock(descriptor):
                os.close(descriptor)
                return None
            # Only now: until it is locked, the content belongs to the process that holds it.
            os.ftruncate(descriptor, 0)
            os.write(descriptor, content)
            os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        status = os.fstat(descriptor)
        lock = RealLock((status.st_dev, status.st_ino), descriptor)
        _held[status.st_dev, status.st_ino] = lock
        return lock


class FolderLock:
    """A folder lock of this process, held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._fd = descriptor

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)


def acquire_folder(path: Path) -> FolderLock | None:
    """Lock the folder *path* itself (``flock``). Return None if this or another process holds it.

    Raises:
        OSError: *path* is not a folder, or file system or platform do not support it (ENOTSUP).
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in TAKEN:
            return None
        raise OSError(errno.ENOTSUP, error.strerror, str(path)) from error
    return FolderLock(descriptor)


def held(path: Path) -> RealLock | None:
    """Return the lock that this process holds on *path*, or None."""
    if not _held:
        return None
    with _guard:
        return _find(path)


def held_of(status: os.stat_result) -> RealLock | None:
    """Return the lock that this process holds on the file with *status*, or None."""
    return _held.get((status.st_dev, status.st_ino))


def held_elsewhere(path: Path) -> bool:
    """Return whether another process holds a lock on *path*, without taking it. False if unknown.

    Also False if this process holds it, as opening and closing the file would release the lock.
    """
    if sys.platform != "linux" or held(path) is not None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _find(path: Path) -> RealLock | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return held_of(status)


def _try_lock(descriptor: int) -> bool:
    try:
        _lock(descriptor)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)

    def _unlock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, 0, os.SEEK_SET)
