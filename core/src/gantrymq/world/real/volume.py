"""``syncfs``: everything of a file system made durable in one call, however many files that is.

The descriptor is opened when the watch begins and kept: Linux (5.8 and newer) then tells of every write that failed
since, whatever file it was in and whether anybody still has that file open. ``fsync`` of a file that was opened anew
can miss such an error. ``ctypes`` is imported with the first sync: it costs a start some 5 ms.

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
    """A descriptor of a folder of the file system."""

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
    """Begin to watch the file system of *folder*, which exists; None where it has no ``syncfs`` that tells of errors.

    Raises:
        OSError: the folder cannot be opened.
    """
    if sys.platform != "linux" or kernel_release() < (5, 8):
        return None
    return RealVolume(folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY))


@functools.cache
def kernel_release() -> tuple[int, int]:
    """Major and minor number of the running kernel; zeros where they cannot be read."""
    major, _, rest = os.uname().release.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


@functools.cache
def find_syncfs() -> Callable[[int], int]:
    """``syncfs`` of the C library, called without the interpreter's lock."""
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syncfs
    function.argtypes = (ctypes.c_int,)
    function.restype = ctypes.c_int
    found: Callable[[int], int] = function
    return found
