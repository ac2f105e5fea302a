"""Deleted topics, some at a time: none is forgotten while a thread makes the ones before it durable.

Forgetting a topic renames folders, and a rename waits for the journal of the file system while a thread syncs; the
event loop would wait with it. So topics that are deleted meanwhile share the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["Deletions"]

AT_ONCE = 16  # forgotten without a pause: 3 ms


class Deletions:
    """Topics that are to be deleted."""

    def __init__(self, forget: Callable[[str], Awaitable[None]], saved: Callable[[], Awaitable[None]]) -> None:
        """What deletes: *forget* does it at once, and what it returns is done when the store's part is durable.

        Both raise a GantryError. *saved* waits until what the broker keeps of all of them is on disk.
        """
        self._forget = forget
        self._saved = saved
        self._asked: list[tuple[str, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def delete(self, topic: str) -> None:
        """Delete *topic*; returns when no crash brings it back.

        Raises:
            GantryError: as *forget* and *saved*.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append((topic, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        await done

    def close(self) -> None:
        """Begin nothing more; whoever waits is cancelled."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        some: list[tuple[str, asyncio.Future[None]]] = []
        try:
            while self._asked:
                some, self._asked = self._asked[:AT_ONCE], self._asked[AT_ONCE:]
                problems = await self._delete(some)
                for topic, done in some:
                    if not done.done():  # who asked may have gone
                        _end(done, problems.get(topic))
        finally:
            self._task = None
            for _, done in (*some, *self._asked):
                done.cancel()

    async def _delete(self, some: list[tuple[str, asyncio.Future[None]]]) -> dict[str, Exception]:
        """Delete them; what went wrong, by topic."""
        forgotten: dict[str, Awaitable[None]] = {}
        problems: dict[str, Exception] = {}
        for topic in dict.fromkeys(topic for topic, _ in some):
            try:
                forgotten[topic] = self._forget(topic)
            except Exception as problem:
                problems[topic] = problem
        for topic, durable in forgotten.items():
            try:
                await durable
            except Exception as problem:
                problems[topic] = problem
        try:
            await self._saved()
        except Exception as problem:
            problems = dict.fromkeys(forgotten, problem) | problems
        return problems


def _end(done: asyncio.Future[None], problem: Exception | None) -> None:
    if problem is None:
        done.set_result(None)
    else:
        done.set_exception(problem)
