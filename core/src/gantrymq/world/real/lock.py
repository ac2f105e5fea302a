"""A lock on the first byte of a file, seen by other processes, Java's among them.

On POSIX, Java's ``FileLock`` is an ``fcntl`` record lock, and so is ours. Such a lock has two traps, and the table of
held locks is there for both: it never conflicts inside one process, and it is gone as soon as the process closes *any*
descriptor of the file, not just the one that was locked. On Windows ``msvcrt.locking`` locks the same byte range.
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

TAKEN = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})  # what the systems say when another process holds it

# struct flock as Linux has it on 64 bits; elsewhere its order differs, and there nobody is asked
_FLOCK = struct.Struct("@hhqqi4x")

_guard = threading.Lock()
_held: dict[tuple[int, int], RealLock] = {}  # by device and inode, so that every spelling of a path is found


class RealLock:
    """A lock of this process, until `release` or the end of the process."""

    def __init__(self, key: tuple[int, int], descriptor: int) -> None:
        self._key = key
        self._fd = descriptor
        self._others: list[int] = []

    def keep(self, descriptor: int) -> None:
        """Take another descriptor of the file: closed before the lock is given up, it would take the lock with it."""
        self._others.append(descriptor)

    def release(self) -> None:
        """Give the lock up; the file stays."""
        with _guard:
            if self._fd >= 0:
                _unlock(self._fd)
                for descriptor in (self._fd, *self._others):
                    os.close(descriptor)
                self._fd, self._others = -1, []
                del _held[self._key]

    def content(self) -> bytes:
        """What the file holds, read without opening it a second time."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        return os.read(self._fd, os.fstat(self._fd).st_size)


def acquire(path: Path, content: bytes) -> RealLock | None:
    """Create *path* with *content*, synced, and lock byte 0; None when somebody, this process included, holds it.

    Raises:
        OSError: the file cannot be made or written.
    """
    with _guard:
        if _find(path) is not None:
            return None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            if not _try_lock(descriptor):
                os.close(descriptor)
                return None
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
    """A lock of this process on a folder, until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._fd = descriptor

    def release(self) -> None:
        """Give the lock up."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)


def acquire_folder(path: Path) -> FolderLock | None:
    """Lock the folder *path* itself (``flock``); None when somebody, this process included, holds it.

    Raises:
        OSError: it is no folder, or its file system, or the platform, has no such lock (ENOTSUP).
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
    """The lock this process holds on *path*, if it does."""
    if not _held:
        return None
    with _guard:
        return _find(path)


def held_of(status: os.stat_result) -> RealLock | None:
    """The same, by what ``os.fstat`` says of an open file."""
    return _held.get((status.st_dev, status.st_ino))


def held_elsewhere(path: Path) -> bool:
    """Whether another process holds a lock on *path*; asked without taking one. False where that cannot be told.

    Where this process holds it, opening and closing the file would lose it, so that is not asked and counts as no.
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
