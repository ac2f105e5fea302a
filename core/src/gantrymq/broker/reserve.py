"""Room on a disk, kept for what must be written when there is no other.

A file of its own holds the blocks. It goes when a write finds no room, and comes back when there is some: a broker
saves how far its consumers have read although somebody filled the disk. File systems that never write in place (btrfs,
ZFS) promise less.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gantrymq.world import Files

__all__ = ["LEAST_BYTES", "Reserve"]

LEAST_BYTES: Final = 1 << 20


class Reserve:
    """One such file. Its methods touch the disk: call them in a thread, one at a time."""

    def __init__(self, files: Files, path: Path) -> None:
        """Nothing is touched yet."""
        self._files = files
        self._path = path
        self._held = 0

    def keep(self, length: int) -> None:
        """Hold *length* bytes, or `LEAST_BYTES`; where there is no room, what is held stays as it is."""
        wanted = max(LEAST_BYTES, 1 << (length - 1).bit_length())
        if wanted <= self._held:
            return
        try:
            file = self._files.open(self._path, create=True)
            try:
                file.allocate(wanted)
                self._held = wanted
            except OSError:
                file.truncate(self._held)
            finally:
                file.close()
        except OSError:
            return

    def give_up(self) -> bool:
        """Give the room back to the disk; whether there was any."""
        held, self._held = self._held, 0
        try:
            self._files.remove(self._path)
        except OSError:
            return False
        return held > 0
