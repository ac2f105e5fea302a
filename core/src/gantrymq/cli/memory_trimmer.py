"""Giving freed memory back to the system, which the C library does not do by itself.

glibc takes blocks of up to 32 MiB from its heap once one of that size was freed, and gives back only what lies free at
the heap's end: a burst of answers of a megabyte each stayed resident for good, and counted against the process's
limit. ``malloc_trim`` gives back free pages wherever they lie.

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

__all__ = ["MemoryTrimmer", "give_freed_memory_back"]

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
WORTH_BYTES: Final = 4 * 1024**2  # less is not given back


class MemoryTrimmer:
    """Gives memory back once enough of it is free. `look` blocks for some milliseconds: for a thread."""

    def __init__(self, unused_bytes: Callable[[], int], trim: Callable[[], object]) -> None:
        """*unused_bytes*: what is resident and not in use, and whatever else is the same before and after *trim*."""
        self._unused_bytes = unused_bytes
        self._trim = trim
        self._least = unused_bytes()

    def look(self) -> None:
        """Give back if WORTH_BYTES more are unused than at the least since the last time."""
        now = self._unused_bytes()
        if now > self._least + WORTH_BYTES:
            self._trim()
            self._least = self._unused_bytes()
        self._least = min(self._least, now)


async def give_freed_memory_back(world: World) -> None:
    """Look from time to time until cancelled; return at once where the C library is not glibc 2.33 or newer."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    trim, ask = getattr(library, "malloc_trim", None), getattr(library, "mallinfo2", None)
    if trim is None or ask is None:
        return
    ask.restype = _MallInfo

    def unused_bytes() -> int:
        """Pages of Python's own allocator are taken for unused: they do not change much."""
        _, resident, of_files = Path("/proc/self/statm").read_bytes().split()[:3]
        found = ask()
        return (int(resident) - int(of_files)) * os.sysconf("SC_PAGE_SIZE") - int(found.uordblks + found.hblkhd)

    await _look_again_and_again(world, unused_bytes, lambda: trim(0))


async def _look_again_and_again(world: World, unused_bytes: Callable[[], int], trim: Callable[[], object]) -> None:
    """Go on also when memory cannot be looked at, for example with too many open files; a new reason is logged."""
    freed: MemoryTrimmer | None = None
    told = ""
    while True:
        try:
            if freed is None:
                freed = await world.workers.run(MemoryTrimmer, unused_bytes, trim)
            else:
                await world.workers.run(freed.look)
        except Exception as error:
            if told != str(error):
                told = str(error)
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
