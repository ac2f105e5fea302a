"""``mlock``, which Python's ``mmap`` does not offer. Imported when it is used: ``ctypes`` costs a start some 5 ms.

The lock ends with the mapping. A process may lock as much as ``ulimit -l`` says, or all with CAP_IPC_LOCK.
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
    """Bring *memory*, which must be writable, into memory and keep it there; see `gantrymq.world.files.Mapping.lock`.

    Raises:
        OSError: ENOMEM or EPERM, more than this process may lock; ENOSYS, there is no ``mlock`` here.
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
        del first  # it would keep the mapping from being closed


@functools.cache
def find_mlock() -> Callable[[int, int], int] | None:
    """``mlock`` of the C library, called without the interpreter's lock; None where there is none."""
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
