"""One open file and its mapping: positional reads and writes, reservation, sync.

What the platforms lack is filled in here: positional I/O on Windows (a seek under a lock), ``posix_fallocate`` on
macOS, Windows and file systems that refuse it (zeros are written), ``fdatasync`` on macOS and Windows (``fsync``; on
macOS with F_FULLFSYNC, since fsync alone leaves the bytes in the drive's cache).

``mmap.flush`` is never called: it holds the interpreter's lock while the disk works. On Linux ``fdatasync`` writes the
dirty pages of shared mappings as well.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import threading
from pathlib import Path

if sys.platform == "darwin":
    import fcntl

PREFETCH_BYTES = 128 * 1024  # Linux reads no more for one call than the device's own read-ahead, of this size mostly
ZEROS_BYTES = 1024 * 1024  # one write of the fallback for posix_fallocate
NO_RESERVATION = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})  # "this file system cannot"

_CLOSED = mmap.mmap(-1, 1)  # stands in for a mapping that was dropped: every use raises ValueError
_CLOSED.close()
_RELEASED = memoryview(b"")
_RELEASED.release()


class RealMapping:
    """A shared mapping of a whole file. ``size`` is in bytes, ``view`` is read-only and gone after ``close``."""

    __slots__ = ("_memory", "size", "view")

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.size = len(memory)
        self.view = memoryview(memory).toreadonly()

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Copy *data* to *position*.

        A length that does not fit, or a closed mapping, is refused by mmap itself; only a negative position, which
        mmap would count from the end, needs a look.
        """
        if position < 0:
            raise IndexError(f"write at {position}")
        self._memory[position : position + len(data)] = data

    def lock(self) -> None:
        """Bring the whole file into memory and keep it there until it is unmapped; see `Mapping.lock`."""
        from gantrymq.world.real.memory_lock import lock_memory

        lock_memory(self._memory)

    def close(self) -> None:
        """Unmap, or, where slices of the view are still held, leave that to the last of them."""
        memory, self._memory = self._memory, _CLOSED
        view, self.view = self.view, _RELEASED
        try:
            view.release()
            memory.close()
        except BufferError:
            return  # a held slice owns the memory now and frees it when it goes


class RealFile:
    """A descriptor and the path it was opened under."""

    def __init__(self, path: Path | str, descriptor: int, *, read_only: bool) -> None:
        """Take ownership of *descriptor*."""
        self._path = path
        self._fd = descriptor
        self._read_only = read_only
        self._tells_cached = _NOWAIT != 0  # until the file system says that it cannot (tmpfs)

    @property
    def path(self) -> Path:
        """Where it was opened; a later rename is not followed."""
        return Path(self._path)

    def size(self) -> int:
        """Length in bytes."""
        return os.fstat(self._fd).st_size

    def pread(self, length: int, position: int) -> bytes:
        """Up to *length* bytes from *position*; shorter only at the end of the file."""
        data = pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # Linux moves at most 2 GiB - 4 KiB in one call
        missing = length - len(data)
        while missing and (data := pread(self._fd, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pread_cached(self, length: int, position: int) -> bytes | None:
        """As `pread`, if all of it is in the page cache; None else, and always where the platform cannot tell."""
        if not self._tells_cached:
            return None
        data = bytearray(length)
        try:
            size = os.preadv(self._fd, (data,), position, _NOWAIT)
        except OSError as error:
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
            while written < len(data):
                written += _pwrite(self._fd, memoryview(data)[written:], position + written)
        except OSError as error:
            error.filename = str(self._path)  # calls of a descriptor name none
            raise

    def prefetch(self, position: int, length: int) -> None:
        """Have the system read a range into its cache, in the background, where it can."""
        descriptor = self._descriptor()
        if hasattr(os, "posix_fadvise"):
            for start in range(position, position + length, PREFETCH_BYTES):
                step = min(PREFETCH_BYTES, position + length - start)
                os.posix_fadvise(descriptor, start, step, os.POSIX_FADV_WILLNEED)

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of ``[start, end)`` where something may have been written."""
        return written(self._descriptor(), start, end)

    def drop_cache(self, position: int, length: int) -> None:
        """Let the system forget whole pages of a range, where it can."""
        descriptor = self._descriptor()
        if hasattr(os, "posix_fadvise") and length > 0:  # 0 would mean up to the end
            os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)

    def truncate(self, length: int) -> None:
        """Set the length; new bytes read as zero and take no space."""
        os.ftruncate(self._descriptor(), length)

    def allocate(self, length: int) -> None:
        """Reserve blocks for ``[0, length)``. Raises OSError when there is no room, ValueError below 0."""
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

    def map(self) -> RealMapping:
        """Map the whole file. Raises ValueError when it is empty."""
        descriptor = self._descriptor()
        access = mmap.ACCESS_READ if self._read_only else mmap.ACCESS_WRITE
        if sys.version_info >= (3, 13):
            return RealMapping(mmap.mmap(descriptor, 0, access=access, trackfd=False))  # no second descriptor
        return RealMapping(mmap.mmap(descriptor, 0, access=access))

    def datasync(self) -> None:
        """Make everything written so far durable, mapped writes included."""
        sync_descriptor(self._descriptor())

    def close(self) -> None:
        """Close the descriptor; mappings live on."""
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _descriptor(self) -> int:
        """The descriptor, for calls that take -1 for something else than a closed file."""
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))
        return self._fd

    def _has_room(self, length: int) -> bool:
        """Whether the blocks are there already: XFS wants as much room again, and needs none of it."""
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
    """Make the data behind *descriptor* durable, with as much metadata as is needed to read it back."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:  # a network file system: fsync is all it has
            os.fsync(descriptor)
    elif sys.platform == "win32":
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)


_NOWAIT = getattr(os, "RWF_NOWAIT", 0)  # Linux: read what is in the page cache, or say that it is not

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
        if error.errno != errno.ENXIO:  # which says that there is nothing more
            return [(start, end)]
    return found
