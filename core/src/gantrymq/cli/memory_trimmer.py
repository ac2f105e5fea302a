"""Returning freed memory to the system, which the C library does not do on its own.

Once a block of up to 32 MiB has been freed, glibc allocates blocks of that size on its heap, and returns only free
memory at the heap's end. After a burst of responses of a megabyte each, their memory stayed resident and counted
against the process's limit. ``malloc_trim`` returns free pages anywhere in the heap; ``benchmarks/bench_memory.py``
measures the effect.

Source: glibc's malloc/malloc.c (M_MMAP_THRESHOLD, systrim, mtrim), mallinfo(3); proc(5), statm.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gantrymq.world import World

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
WORTH_BYTES: Final = 4 * 1024**2  # minimum amount to return


class MemoryTrimmer:
    """Returns memory once enough of it is free. `check` blocks for some milliseconds: call it in a thread."""

    def __init__(self, unused_bytes: Callable[[], int], trim: Callable[[], object]) -> None:
        """*unused_bytes*: returns the resident bytes not in use; a constant offset does not matter."""
        self._unused_bytes = unused_bytes
        self._trim = trim
        self._least = unused_bytes()

    def check(self) -> None:
        """Trim if the unused bytes exceed their minimum since the last trim by WORTH_BYTES."""
        now = self._unused_bytes()
        if now > self._least + WORTH_BYTES:
            self._trim()
            self._least = self._unused_bytes()
        self._least = min(self._least, now)


async def trim_freed_memory(world: World) -> None:
    """Trim periodically until cancelled; return at once if the C library is not glibc 2.33 or newer."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    trim, ask = getattr(library, "malloc_trim", None), getattr(library, "mallinfo2", None)
    if trim is None or ask is None:
        return
    ask.restype = _MallInfo

    def unused_bytes() -> int:
        """Return resident bytes not in use. Pages of Python's allocator count as unused; they change little."""
        _, resident, of_files = Path("/proc/self/statm").read_bytes().split()[:3]
        found = ask()
        return (int(resident) - int(of_files)) * os.sysconf("SC_PAGE_SIZE") - int(found.uordblks + found.hblkhd)

    await _trim_periodically(world, unused_bytes, lambda: trim(0))


async def _trim_periodically(world: World, unused_bytes: Callable[[], int], trim: Callable[[], object]) -> None:
    """Check periodically. Errors, such as too many open files, are logged when they change; checks continue."""
    freed: MemoryTrimmer | None = None
    last_error = ""
    while True:
        try:
            if freed is None:
                freed = await world.workers.run(MemoryTrimmer, unused_bytes, trim)
            else:
                await world.workers.run(freed.check)
        except Exception as error:
            if last_error != str(error):
                last_error = str(error)
                log.warning("freed memory cannot be given back to the system: %s; it is tried again", error)
        await world.clock.sleep(LOOK_S)


class _MallInfo(ctypes.Structure):
    """struct mallinfo2; *uordblks* is in use on the heaps, *hblkhd* in blocks of their own."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )
