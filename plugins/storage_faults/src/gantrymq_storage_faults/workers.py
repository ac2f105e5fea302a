"""Workers whose completions are delayed by the slow calls of the work; no thread sleeps.

world = attrs.evolve(world, files=files, workers=LateWorkers(world.workers, world.clock, files))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from gantrymq.plugin.world import Clock, Done, Workers, resolve_future
from gantrymq_storage_faults.files import FaultyFiles

T = TypeVar("T")


class LateWorkers:
    """`Workers` to be used with `FaultyFiles`."""

    def __init__(self, inner: Workers, clock: Clock, files: FaultyFiles) -> None:
        self._inner = inner
        self._clock = clock
        self._files = files
        self._late = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` and return its result (or raise) when its slow calls would have ended."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=resolve_future(answer))
        return await answer

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Run ``work(*args)``, call ``done(result, error)`` when its slow calls would have ended."""
        seconds = 0.0

        def timed(*args: Any) -> T:
            nonlocal seconds
            self._files.begin_work()
            try:
                return work(*args)
            finally:
                seconds = self._files.end_work()

        def ended(result: T | None, error: BaseException | None) -> None:
            if seconds:
                self._late += 1
                self._clock.call_later(seconds, arrive, result, error)
            else:
                done(result, error)

        def arrive(result: T | None, error: BaseException | None) -> None:
            self._late -= 1
            done(result, error)

        self._inner.submit(timed, *args, done=ended)

    async def close(self) -> None:
        """Wait until every ``done`` was called, and release the threads."""
        await self._inner.close()
        while self._late:
            await self._clock.sleep(0.01)
