"""``mlock``, which Python's ``mmap`` does not provide. Imported on first use, as ``ctypes`` takes about 5 ms.

The lock ends with the mapping. The limit is ``ulimit -l``; with CAP_IPC_LOCK there is none.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import sys
from collections.abc import Callable


def lock_memory(memory: mmap.mmap) -> None:
    """Lock the writable mapping *memory* in memory; see `gantrymq.world.files.Mapping.lock`.

    Raises:
        OSError: ENOMEM or EPERM if the limit is exceeded; ENOSYS if ``mlock`` is missing.
        TypeError: *memory* is read-only.
        ValueError: *memory* is closed.
    """
    first = ctypes.c_char.from_buffer(memory)
    lock = find_mlock()
    if lock is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    try:
        if lock(ctypes.addressof(first), len(memory)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        del first  # else the mapping could not be closed


@functools.cache
def find_mlock() -> Callable[[int, int], int] | None:
    """Return ``mlock`` of the C library, which releases the GIL; None if it is missing."""
    if sys.platform == "win32":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).mlock
    except (AttributeError, OSError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    function.restype = ctypes.c_int
    lock: Callable[[int, int], int] = function
    return lock
