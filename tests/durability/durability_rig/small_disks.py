"""A small file system for a store, which a test fills to the last byte and frees again.

A tmpfs, or ext4 or XFS on a loop device; all require permission to mount. Only what this module mounted is unmounted.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1024 * 1024
BALLAST = "ballast"
SHARED_OUT = 4096
XFS_KEEPS = 64 * 1024  # used by the file system itself; the others use nothing
XFS_LEAST = 320 * MIB  # mkfs makes none that is smaller


class SmallDisk:
    """A mounted file system; `ballast` is a file that the test uses to fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / BALLAST

    @property
    def free_bytes(self) -> int:
        """Return the space available to a new file."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def take(self, most: int) -> None:
        """Have the ballast take *most* bytes more."""
        with self._ballast.open("ab") as file:
            os.posix_fallocate(file.fileno(), file.tell(), most)

    def fill(self) -> None:
        """Have the ballast take every byte that it can have, and make sure that there is none for others either."""
        piece = MIB
        while piece:
            try:
                self.take(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece = piece // 2 if piece > SHARED_OUT else 0
        assert self.free_bytes <= XFS_KEEPS, f"{self.free_bytes} bytes are still free"
        try:
            with pytest.raises(OSError, match="No space left"):
                (self.folder / "one").write_bytes(b"x")
        finally:
            (self.folder / "one").unlink(missing_ok=True)

    def free(self) -> None:
        """Free the space of the ballast."""
        self._ballast.unlink()

    def remount(self, option: str) -> None:
        """Mount it again, ``ro`` or ``rw``."""
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int, kind: str = "tmpfs") -> Iterator[SmallDisk]:
    """Mount a file system *kind* (tmpfs, ext4 or xfs) at *folder*; skips the test where that is not possible."""
    if sys.platform != "linux":
        pytest.skip("only Linux has a tmpfs to mount")
    folder.mkdir()
    image = folder.with_suffix(".img")
    if kind == "tmpfs":
        words = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    else:
        with image.open("wb") as file:
            file.truncate(size_bytes if kind == "ext4" else max(size_bytes, XFS_LEAST))
        options = ("-F", "-m", "0") if kind == "ext4" else ()  # no blocks that only root may use
        _or_skip(f"mkfs.{kind}", "-q", *options, str(image))
        words = ["mount", "-t", kind, "-o", "loop", str(image), str(folder)]
    _or_skip(*words)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        image.unlink(missing_ok=True)


def _or_skip(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {words[0]} command")
    if done.returncode:
        pytest.skip(f"no right to mount a small file system: {' '.join(words[:3])}: {done.stderr.strip()}")
