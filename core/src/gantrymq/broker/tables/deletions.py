"""Deletion of topics in groups, so that no topic is removed while a thread makes earlier removals durable.

Deleting a topic renames folders, and while a thread syncs, a rename waits for the journal of the file system and would
block the event loop. So topics that are deleted meanwhile are collected for the next group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

AT_ONCE = 16  # topics to remove without yielding: 3 ms


class Deletions:
    """Queue of topics to delete."""

    def __init__(self, forget: Callable[[str], Awaitable[None]], saved: Callable[[], Awaitable[None]]) -> None:
        """Create an empty queue.

        *forget* removes a topic immediately; its awaitable is done when the store's part is durable. *saved* waits
        until the broker's files are on disk. Both may raise a GantryError.
        """
        self._forget = forget
        self._saved = saved
        self._asked: list[tuple[str, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def delete(self, topic: str) -> None:
        """Delete *topic*. Return when the deletion is durable.

        Raises:
            GantryError: an error of *forget* or *saved*.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append((topic, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        await done

    def close(self) -> None:
        """Start no more deletions and cancel the waiting ones."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        some: list[tuple[str, asyncio.Future[None]]] = []
        try:
            while self._asked:
                some, self._asked = self._asked[:AT_ONCE], self._asked[AT_ONCE:]
                problems = await self._delete(some)
                for topic, done in some:
                    if not done.done():  # the caller may have been cancelled
                        _end(done, problems.get(topic))
        finally:
            self._task = None
            for _, done in (*some, *self._asked):
                done.cancel()

    async def _delete(self, some: list[tuple[str, asyncio.Future[None]]]) -> dict[str, Exception]:
        """Delete some topics. Return the errors by topic."""
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
