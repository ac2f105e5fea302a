"""Worker threads for blocking calls; results are passed back to the event loop.

The threads take work from a ``SimpleQueue`` and schedule ``done`` on the loop. `concurrent.futures` would create a
future and take several locks per call: measured, 16-24 us for the caller instead of 0.6 us.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
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
