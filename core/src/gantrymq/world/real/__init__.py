"""`World` of the operating system: sockets, files, threads and clocks; nothing else may read the clock directly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from gantrymq.world import World
from gantrymq.world.real.files import RealFiles
from gantrymq.world.real.network import RealNetwork
from gantrymq.world.real.workers import RealWorkers, usable_processors, yield_processor

__all__ = [
    "RealClock",
    "RealFiles",
    "RealNetwork",
    "RealWorkers",
    "raise_descriptor_limit",
    "real_world",
    "usable_descriptors",
]

WORKER_THREADS = 6  # one for syncs of group commits, the others for cold reads, allocation, deletion and small files


def real_world(*, worker_threads: int = WORKER_THREADS) -> World:
    """Return the world of this process. Threads are started and files opened on first use only.

    Args:
        worker_threads: number of blocking calls that may run in parallel, at least 1.
    """
    return World(
        clock=RealClock(),
        network=RealNetwork(),
        files=RealFiles(),
        workers=RealWorkers(worker_threads),
        random=random.Random(os.urandom(32)),
        process_id=os.getpid(),
        host_name=socket.gethostname(),
        environ=os.environ,
        processors=usable_processors,
        descriptors=usable_descriptors,
        yield_processor=yield_processor,
    )


MAX_DESCRIPTORS = 1_048_576  # the kernel's default of fs.nr_open; code that closes all possible ones gets slow above


def usable_descriptors() -> int:
    """Return the current limit; `MAX_DESCRIPTORS` if there is none, and on Windows."""
    if sys.platform == "win32":
        return MAX_DESCRIPTORS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files, which includes sockets and queue files, to the hard limit."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class RealClock:
    """Wall time, monotonic time and timers. Only timers need a running event loop."""

    def now_ms(self) -> int:
        """Return the wall time, milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def utc_offset_ms(self, at_ms: int) -> int:
        """Return the offset of local time from UTC at *at_ms*, milliseconds."""
        return time.localtime(at_ms / 1000).tm_gmtoff * 1000

    monotonic = staticmethod(time.monotonic)  # seconds; without a function around it, as it is read per request

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` on the running loop in *delay_s* s (0 or less: in the next iteration)."""
        return asyncio.get_running_loop().call_later(delay_s, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds*."""
        await asyncio.sleep(seconds)
