"""Room on a disk, kept for what must be written when there is no other.

A file of its own holds the blocks. It goes when a write finds no room, and comes back when there is some: a broker
starts, and saves how far its consumers have read, although somebody filled the disk. File systems that never write in
place (btrfs, ZFS) promise less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gantrymq.world import Files

__all__ = ["ENOUGH_BYTES", "LEAST_BYTES", "DiskReserve"]

ENOUGH_BYTES: Final = 1 << 20  # for files of some ten thousand queues; more where files are larger
LEAST_BYTES: Final = 1 << 16


class DiskReserve:
    """One such file. Its methods touch the disk: call them in a thread, one at a time."""

    def __init__(self, files: Files, path: Path) -> None:
        """Nothing is touched yet."""
        self._files = files
        self._path = path
        self._held = 0

    def keep(self, length: int) -> None:
        """Hold *length* bytes, at least `ENOUGH_BYTES`; less where there is no room, but not below `LEAST_BYTES`."""
        wanted = max(ENOUGH_BYTES, 1 << (length - 1).bit_length())
        while wanted > self._held and wanted >= LEAST_BYTES:
            if self._allocate(wanted):
                self._held = wanted
            wanted //= 2

    def _allocate(self, length: int) -> bool:
        """Whether there is room for so much; if not, the file is as it was."""
        try:
            file = self._files.open(self._path, create=True)
        except OSError:
            return False
        try:
            file.allocate(length)
        except OSError:
            file.truncate(self._held)
            return False
        finally:
            file.close()
        return True

    def give_up(self) -> bool:
        """Give the room back to the disk, of an earlier process as well; whether there was any."""
        self._held = 0
        try:
            there = self._files.stat(self._path)
            self._files.remove(self._path)
        except OSError:
            return False
        return there is not None and there.size > 0
