"""Limits the worker threads used for one kind of work, so that it does not delay other work.

Cold reads take as long as the disk needs. If consumers that catch up occupied every thread, the syncs that senders wait
for would be queued after their reads; so only a few reads are passed to the workers at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gantrymq.errors import StoreError
from gantrymq.plugin.world import Done, Workers, resolve_future

T = TypeVar("T")


class BoundedWorkers:
    """Passes work to workers in order, a bounded number at a time. All methods belong to the event loop."""

    def __init__(self, workers: Workers, most: int) -> None:
        """*most*: maximum number of concurrent jobs, at least 1."""
        self.busy = 0  # jobs with the workers; 0 also means that none is waiting
        self.readers = 0  # number of active `reading` contexts
        self._workers = workers
        self._most = most
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...], Done[Any]]] = deque()

    @contextmanager
    def reading(self, problem: str) -> Iterator[None]:
        """Context of a read, possibly in several steps; the store waits for it when it stops.

        Raises:
            StoreError: instead of an OSError; *problem* followed by its text.
        """
        self.readers += 1
        try:
            yield
        except OSError as error:
            raise StoreError(f"{problem}: {error}") from error
        finally:
            self.readers -= 1

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Like `Workers.run`, in order."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=resolve_future(answer))
        return await answer

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Like `Workers.submit`, in order."""
        if self.busy < self._most:
            self._start(work, args, done)
        else:
            self._waiting.append((work, args, done))

    def _start(self, work: Callable[..., Any], args: tuple[Any, ...], done: Done[Any]) -> None:
        def ended(result: Any, error: BaseException | None) -> None:
            self.busy -= 1
            if self._waiting:
                self._start(*self._waiting.popleft())
            done(result, error)

        self.busy += 1
        self._workers.submit(work, *args, done=ended)
