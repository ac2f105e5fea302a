"""Open files: positional reads and writes, reservation, sync.

Replacements for missing functions: on Windows positional I/O is a seek under a lock; on macOS, Windows and file systems
without ``posix_fallocate`` zeros are written; ``fdatasync`` is ``fsync`` on macOS and Windows (on macOS with
F_FULLFSYNC, as fsync alone leaves data in the drive's cache).
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

if sys.platform == "darwin":
    import fcntl

PREFETCH_BYTES = 128 * 1024  # Linux limits one call to the read-ahead of the device, usually this size
ZEROS_BYTES = 1024 * 1024  # one write of the fallback for posix_fallocate
NO_RESERVATION = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})  # not supported by the file system


class RealFile:
    """An open file: descriptor and path."""

    def __init__(self, path: Path | str, descriptor: int, *, read_only: bool) -> None:
        """Take ownership of *descriptor*."""
        self._path = path
        self._fd = descriptor
        self._read_only = read_only
        self._tells_cached = _NOWAIT != 0  # until an unsupported file system is noticed (tmpfs)

    @property
    def path(self) -> Path:
        """Path under which it was opened; not updated by a rename."""
        return Path(self._path)

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._fd).st_size

    def pread(self, length: int, position: int) -> bytes:
        """Read *length* bytes from *position*; fewer only at the end of the file."""
        data = pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # Linux transfers at most 2 GiB - 4 KiB per call
        missing = length - len(data)
        while missing and (data := pread(self._fd, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """Read like `pread` from the page cache; None if not all bytes are cached or it is unsupported."""
        if not self._tells_cached:
            return None
        data = bytearray(length)
        try:
            size = os.preadv(self._fd, (data,), position, _NOWAIT)
        except OSError as error:
            # The first page is not cached; if a later one is not, the result is short.
            if error.errno == errno.EAGAIN:
                return None
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            self._tells_cached = False
            return None
        return bytes(data) if size == length else None

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of *data* at *position*. Raises OSError (ENOSPC, EIO, EROFS)."""
        try:
            written = _pwrite(self._fd, data, position)
            # Linux writes at most 2 GiB - 4 KiB per call, and only a part if the disk fills up meanwhile.
            while written < len(data):
                written += _pwrite(self._fd, memoryview(data)[written:], position + written)
        except OSError as error:
            error.filename = str(self._path)  # calls with a descriptor do not set it
            raise

    def prefetch(self, position: int, length: int) -> None:
        """Read a range into the page cache in the background, if supported."""
        descriptor = self._descriptor()
        if hasattr(os, "posix_fadvise"):
            for start in range(position, position + length, PREFETCH_BYTES):
                step = min(PREFETCH_BYTES, position + length - start)
                os.posix_fadvise(descriptor, start, step, os.POSIX_FADV_WILLNEED)

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[start, end)`` that may have been written."""
        return written(self._descriptor(), start, end)

    def drop_cache(self, position: int, length: int) -> None:
        """Drop whole pages of a range from the page cache, if supported."""
        descriptor = self._descriptor()
        if hasattr(os, "posix_fadvise") and length > 0:  # 0 would mean up to the end
            os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)

    def truncate(self, length: int) -> None:
        """Set the length; new bytes are zero and take no space."""
        os.ftruncate(self._descriptor(), length)

    def allocate(self, length: int) -> None:
        """Reserve blocks for ``[0, length)``. Raises OSError if the disk is full, ValueError if negative."""
        if length < 0:
            raise ValueError(f"allocate {length} bytes")
        descriptor = self._descriptor()
        if length == 0:
            return
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(descriptor, 0, length)
            except OSError as error:
                if error.errno == errno.ENOSPC and self._has_room(length):
                    return
                if error.errno not in NO_RESERVATION:
                    error.filename = str(self._path)
                    raise
            else:
                return
        self._fill_with_zeros(length)

    def datasync(self) -> None:
        """Make everything written so far durable."""
        sync_descriptor(self._descriptor())

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _descriptor(self) -> int:
        """Return the descriptor, for calls that do not reject -1 as closed."""
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        return self._fd

    def _has_room(self, length: int) -> bool:
        """Return whether the blocks are already allocated: XFS requires the same space again even if so."""
        stat = os.fstat(self._fd)
        return stat.st_size >= length and stat.st_blocks * 512 >= length

    def _fill_with_zeros(self, length: int) -> None:
        size = self.size()
        zeros = bytes(min(ZEROS_BYTES, max(length - size, 0)))
        while size < length:
            step = min(len(zeros), length - size)
            self.pwrite(memoryview(zeros)[:step], size)
            size += step


def sync_descriptor(descriptor: int) -> None:
    """Make the data of *descriptor* durable, with the metadata needed to read it."""
    if sys.platform == "darwin":
        try:
            # fsync of macOS may leave the data in the drive's cache.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # network file systems support only fsync
            os.fsync(descriptor)
    elif sys.platform == "win32":
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)


_NOWAIT = getattr(os, "RWF_NOWAIT", 0)  # Linux: read from the page cache or fail

if sys.platform == "win32":
    _seek_lock = threading.Lock()  # descriptors share their position between threads

    def pread(descriptor: int, length: int, position: int) -> bytes:
        with _seek_lock:
            os.lseek(descriptor, position, os.SEEK_SET)
            return os.read(descriptor, length)

    def _pwrite(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
        with _seek_lock:
            os.lseek(descriptor, position, os.SEEK_SET)
            return os.write(descriptor, data)

else:
    pread = os.pread
    _pwrite = os.pwrite


def written(descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
    """See `Files.written`."""
    found: list[tuple[int, int]] = []
    stop = start
    if not hasattr(os, "SEEK_DATA"):
        return [(start, end)]
    try:
        while (place := os.lseek(descriptor, stop, os.SEEK_DATA)) < end:
            stop = min(os.lseek(descriptor, place, os.SEEK_HOLE), end)
            found.append((place, stop))
    except OSError as error:
        if error.errno != errno.ENXIO:  # no data after this position
            return [(start, end)]
    return found
