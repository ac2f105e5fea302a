"""Disk space reserved for the broker's state files on a full disk.

The space is held by a file. When a write finds the disk full, the file is removed, and it is created again once there
is space: the broker can start, and save committed offsets, although the disk is full. On copy-on-write file systems
(btrfs, ZFS) the reserve is less reliable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gantrymq.world import Files

ENOUGH_BYTES: Final = 1 << 20  # enough for files with some ten thousand queues; more if the files are larger
LEAST_BYTES: Final = 1 << 16


class DiskReserve:
    """The reserve file. The methods access the disk: call them in a thread, one at a time."""

    def __init__(self, files: Files, path: Path) -> None:
        """Create the object without accessing the disk."""
        self._files = files
        self._path = path
        self._held = 0

    def keep(self, length: int) -> None:
        """Reserve *length* bytes, at least `ENOUGH_BYTES`; on a full disk less, but not below `LEAST_BYTES`."""
        wanted = max(ENOUGH_BYTES, 1 << (length - 1).bit_length())
        while wanted > self._held and wanted >= LEAST_BYTES:
            if self._allocate(wanted):
                self._held = wanted
            wanted //= 2

    def _allocate(self, length: int) -> bool:
        """Try to allocate *length* bytes. Return False, with the file unchanged, if the disk is full."""
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
        """Remove the file, also that of an earlier process. Return whether it held any space."""
        self._held = 0
        try:
            there = self._files.stat(self._path)
            self._files.remove(self._path)
        except OSError:
            return False
        return there is not None and there.size > 0
