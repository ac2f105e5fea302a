"""``syncfs``: makes all files of a file system durable in one call.

The descriptor is opened at the start of the watch and kept open: Linux 5.8 and newer then reports every failed write
since, for any file, open or closed. ``fsync`` of a reopened file can miss such an error. ``ctypes`` is imported for the
first sync, as it takes about 5 ms.

Source: the Linux manual page syncfs(2).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["RealVolume", "watch_volume"]


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
