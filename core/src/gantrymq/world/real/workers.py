"""Worker threads for blocking calls, and the number of processors that this process may use.

Results are passed back to the event loop. The threads take work from a ``SimpleQueue`` and schedule ``done`` on the
loop. `concurrent.futures` would create a future and take several locks per call: measured, 16-24 us for the caller
instead of 0.6 us.

The number of processors comes from the affinity of the process and the quotas of its control groups.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gantrymq.world.workers import Done, resolve_future

T = TypeVar("T")


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Callable[..., Any]
    args: tuple[Any, ...]
    done: Done[Any]


class RealWorkers:
    """Bounded pool of daemon threads, started one by one by the first calls."""

    def __init__(self, threads: int) -> None:
        """Run up to *threads* calls in parallel; others wait in order.

        Raises:
            ValueError: *threads* is below 1.
        """
        if threads < 1:
            raise ValueError(f"{threads} worker threads, at least 1 is needed")
        self._limit = threads
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()  # None stops one thread
        self._threads: list[threading.Thread] = []
        self._running = 0  # running threads; protected by `_guard` after `close`
        self._guard = threading.Lock()
        self._ended: asyncio.Future[None] | None = None  # set by `close`, resolved by the last thread

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` in a thread; return its result or raise its exception.

        Cancelling the caller does not stop the work; its result is discarded.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=resolve_future(answer))
        return await answer

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Run ``work(*args)`` in a thread, then ``done(result, error)`` on the calling loop."""
        if self._ended is not None:
            raise RuntimeError("the workers are closed")
        self._jobs.put(_Job(asyncio.get_running_loop(), work, args, done))
        if len(self._threads) < self._limit:
            self._start_thread()

    async def close(self) -> None:
        """Wait until all submitted work and its ``done`` callbacks have run, then end the threads."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if not self._threads:
                self._ended.set_result(None)
            for _ in self._threads:
                self._jobs.put(None)  # after all work
        await asyncio.shield(self._ended)
        for thread in self._threads:
            thread.join()  # returns at once

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"gantrymq-worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        self._running += 1
        thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            _carry_out(job)
            del job  # release its objects while waiting for the next one
        with self._guard:
            self._running -= 1
            last = self._running == 0
        if last and self._ended is not None:
            # All other threads have scheduled their `done` callbacks, which the loop runs in order.
            _call(self._ended.get_loop(), _resolve, self._ended)


def _carry_out(job: _Job) -> None:
    try:
        result = job.work(*job.args)
    except BaseException as error:  # passed on, so that the thread survives any exception
        _call(job.loop, job.done, None, error)
    else:
        _call(job.loop, job.done, result, None)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback, *args)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: None)
"""Let other threads use this processor, if the platform supports it."""


def usable_processors(root: Path = Path("/")) -> float:
    """Return the number of processors, a fraction with a quota. *root* is the folder with ``proc`` and ``sys``."""
    try:
        usable = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not Linux
        usable = float(os.cpu_count() or 1)
    for group in _groups(root):
        try:
            quota, period = _quota(group)
            if quota > 0:
                usable = min(usable, quota / period)
        except (OSError, ValueError, ZeroDivisionError):  # without a quota
            continue
    return usable


def _quota(group: Path) -> tuple[int, int]:
    """Return processor time and period in microseconds. Raises ValueError or OSError without a quota."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text("ascii").split()
        return int(quota), int(period)
    return int((group / "cpu.cfs_quota_us").read_text("ascii")), int((group / "cpu.cfs_period_us").read_text("ascii"))


def _groups(root: Path) -> list[Path]:
    """Return the folders of the control groups of this process and their parents, of versions 2 and 1."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    mounted = root / "sys" / "fs" / "cgroup"
    found: list[Path] = []
    for line in lines:
        _, _, rest = line.partition(":")  # after the number of the hierarchy
        controllers, _, own = rest.partition(":")
        if not controllers or "cpu" in controllers.split(","):
            group = Path(own.lstrip("/"))
            found += [mounted / controllers / each for each in (group, *group.parents)]
    return found
