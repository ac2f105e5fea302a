"""Some of the worker threads for one kind of work, so that it never keeps the others waiting.

Cold reads take as long as the disk needs. If consumers that catch up held every thread, the sync that senders wait for
would stand in line behind their reads; so no more than a few reads are handed to the workers at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gantrymq.errors import StoreError
from gantrymq.world import Workers
from gantrymq.world.workers import Done, into

__all__ = ["BoundedWorkers"]

T = TypeVar("T")


class BoundedWorkers:
    """Hands work on to workers, a bounded number at once, in order. All methods belong to the event loop."""

    def __init__(self, workers: Workers, most: int) -> None:
        """*most*: pieces of work that may be with the workers at once, at least 1."""
        self.busy = 0  # pieces of work that are with the workers; those that wait are there when it is not 0
        self.readers = 0  # who is `reading`
        self._workers = workers
        self._most = most
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...], Done[Any]]] = deque()

    @contextmanager
    def reading(self, problem: str) -> Iterator[None]:
        """Somebody reads, in several steps maybe: the store waits for it when it stops.

        Raises:
            StoreError: for an OSError, with its text behind *problem*.
        """
        self.readers += 1
        try:
            yield
        except OSError as error:
            raise StoreError(f"{problem}: {error}") from error
        finally:
            self.readers -= 1

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """As `Workers.run`, in its turn."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=into(answer))
        return await answer

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """As `Workers.submit`, in its turn."""
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
