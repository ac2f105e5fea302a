"""Inspects and drops the page cache of a store's log, for benchmarks of cold reads. Linux only."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

__all__ = ["cached_bytes", "drop_cache", "read_log"]


def drop_cache(root: Path) -> None:
    """Write out and drop the log and queues of the store in *root*; pages mapped and touched by a process remain."""
    for path in _files(root):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_log(root: Path, length: int) -> None:
    """Bring the first *length* bytes of the log of the store in *root* into memory."""
    for path in _files(root / "commitlog"):
        with path.open("rb", buffering=0) as file:
            while length > 0 and (data := file.read(min(length, 1 << 22))):
                length -= len(data)


def cached_bytes(root: Path) -> int:
    """Return how much of the log of the store in *root* is in memory, by mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    pages = 0
    for path in _files(root / "commitlog"):
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            found = ctypes.create_string_buffer(-(-len(memory) // mmap.PAGESIZE))
            first = ctypes.c_char.from_buffer(memory)
            if libc.mincore(ctypes.addressof(first), len(memory), found):
                raise OSError(ctypes.get_errno(), f"mincore of {path}")
            del first
            pages += sum(byte & 1 for byte in found.raw)
    return pages * mmap.PAGESIZE


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("0*") if path.is_file() and path.name.isdecimal())
