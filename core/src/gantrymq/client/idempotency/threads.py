"""Blocking database calls: made by worker threads for an event loop, or by a calling thread that has no event loop.

With worker threads, the number of messages in progress is limited to the number of threads, and each makes one call at
a time. So a transaction that others wait for in the database always finds a thread to continue.

In the calling thread, nothing that the coroutines of `consuming` await ever suspends, so each runs to its end when it
is started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeVar

from gantrymq.client.idempotency.records import BlockingRecords, ConsumedRecord
from gantrymq.client.user_functions import call_function
from gantrymq.world import Workers

T = TypeVar("T")


class ThreadConnection:
    """A connection in a transaction, for an async handler.

    Attributes:
        connection: the database connection; its calls block.
    """

    def __init__(self, connection: Any, workers: Workers) -> None:
        self.connection = connection
        self._workers = workers

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(connection, *args)`` in a thread, and return its result or raise its error; one call at a time."""
        return await run_to_completion(self._workers.run(call_function, work, self.connection, *args))

    async def execute(self, statement: Any, parameters: Any = ()) -> list[Any]:
        """Execute one statement; returns its rows, if it has any."""
        return await self.run(_execute, statement, parameters)


class WorkerThreadRecords:
    """`AsyncRecords` of `BlockingRecords`."""

    def __init__(self, records: BlockingRecords, workers: Workers, threads: int) -> None:
        self._records = records
        self._workers = workers
        self._threads = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = self._writers = asyncio.Semaphore(threads)  # replaced for each event loop
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Implement `AsyncRecords.slot`. Each ``asyncio.run`` has a new loop, which needs new semaphores."""
        if (loop := asyncio.get_running_loop()) is not self._loop:
            self._loop, self._slots = loop, asyncio.Semaphore(self._threads)
            self._writers = asyncio.Semaphore(self._records.writers or self._threads)
        return self._slots

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[ThreadConnection]:
        """Implement `AsyncRecords.transaction`; when a caller is cancelled, the rollback finishes first."""
        async with self._writers:
            opened = self._records.transaction()
            try:
                connection = await run_to_completion(self._workers.run(opened.__enter__))
            except asyncio.CancelledError as cancelled:  # it may be open nevertheless
                await run_to_completion(self._workers.run(_roll_back, opened, cancelled))
                raise
            try:
                yield ThreadConnection(connection, self._workers)
            except BaseException as error:
                await run_to_completion(self._workers.run(_roll_back, opened, error))
                raise
            await run_to_completion(self._workers.run(opened.__exit__, None, None, None))

    async def prepare(self) -> None:
        """Implement `AsyncRecords.prepare`."""
        await self._workers.run(self._records.prepare)

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Implement `AsyncRecords.known`."""
        return await self._workers.run(self._records.known, group, names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Implement `AsyncRecords.key_with_prefix`."""
        return await self._workers.run(self._records.key_with_prefix, group, prefix)

    async def add(self, connection: ThreadConnection, rows: Sequence[ConsumedRecord]) -> None:
        """Implement `AsyncRecords.add`."""
        await connection.run(self._records.add, rows)

    async def prune(self, before_ms: int) -> int:
        """Implement `AsyncRecords.prune`."""
        return await run_to_completion(self._workers.run(self._records.prune, before_ms))


async def run_to_completion(work: Awaitable[T]) -> T:
    """Wait for *work*, return its result or raise its error; a cancellation is raised after *work* has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()


def _roll_back(opened: Any, error: BaseException) -> None:
    try:
        opened.__exit__(type(error), error, error.__traceback__)
    except BaseException as raised:
        if raised is not error:
            raise


def _execute(connection: Any, statement: Any, parameters: Any) -> list[Any]:
    result = connection.execute(statement, parameters) if parameters else connection.execute(statement)
    if getattr(result, "returns_rows", True) is False:  # SQLAlchemy
        return []
    return list(result.fetchall())


class CallerThreadRecords:
    """`AsyncRecords` of `BlockingRecords`; calls block the calling thread."""

    def __init__(self, records: BlockingRecords) -> None:
        self._records = records
        self.conflicts = records.conflicts

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Do nothing: the calling thread is the slot."""
        return nullcontext()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Implement `AsyncRecords.transaction` with the database connection itself."""
        with self._records.transaction() as connection:
            yield connection

    async def prepare(self) -> None:
        """Implement `AsyncRecords.prepare`."""
        self._records.prepare()

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Implement `AsyncRecords.known`."""
        return self._records.known(group, names)

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Implement `AsyncRecords.key_with_prefix`."""
        return self._records.key_with_prefix(group, prefix)

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Implement `AsyncRecords.add`."""
        self._records.add(connection, rows)

    async def prune(self, before_ms: int) -> int:
        """Implement `AsyncRecords.prune`."""
        return self._records.prune(before_ms)


def run_without_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run *work*, which must not suspend, and return its result or raise its error."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a step of idempotent consumption waited for an event loop, and there is none")
