"""Worker threads: blocking calls leave the event loop, their results come back to it.

The threads take work from a ``SimpleQueue`` and hand ``done`` to the loop themselves. `concurrent.futures` would make a
future for each call and take several locks: measured, 16-24 us for the caller against 0.6 us here.
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
    """A bounded pool of daemon threads; each of the first calls starts one."""

    def __init__(self, threads: int) -> None:
        """Allow *threads* pieces of work to run at once; the rest waits in order.

        Raises:
            ValueError: *threads* is below 1.
        """
        if threads < 1:
            raise ValueError(f"{threads} worker threads, at least 1 is needed")
        self._limit = threads
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()  # None ends one thread
        self._threads: list[threading.Thread] = []
        self._running = 0  # threads that have not ended; under `_guard` once `close` was called
        self._guard = threading.Lock()
        self._ended: asyncio.Future[None] | None = None  # set by `close`, resolved by the last thread

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` in a thread and return (or raise) what it does.

        Cancelling the caller does not stop the work; its result is dropped.
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
        """Wait for everything handed in, until each ``done`` was called, and end the threads."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if not self._threads:
                self._ended.set_result(None)
            for _ in self._threads:
                self._jobs.put(None)  # behind all work
        await asyncio.shield(self._ended)
        for thread in self._threads:
            thread.join()  # past its last statement by now

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"gantrymq-worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        self._running += 1
        thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            _carry_out(job)
            del job  # the next one may be long in coming
        with self._guard:
            self._running -= 1
            last = self._running == 0
        if last and self._ended is not None:
            # Every other thread has handed its `done` to the loop, and the loop runs such calls in order.
            _call(self._ended.get_loop(), _resolve, self._ended)


def _carry_out(job: _Job) -> None:
    try:
        result = job.work(*job.args)
    except BaseException as error:  # handed on, whatever it is: the thread serves others
        _call(job.loop, job.done, None, error)
    else:
        _call(job.loop, job.done, result, None)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody left to tell
        loop.call_soon_threadsafe(callback, *args)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
