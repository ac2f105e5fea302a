"""Messages as a ``for`` loop gets them, out of an ``async for`` of the loop's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from gantrymq.client.group.streams import Batches, Messages
from gantrymq.client.sync.loop_thread import LoopThread

__all__ = ["Stream"]

T = TypeVar("T")


class Stream(Generic[T]):
    """Asks for one after the other; one thread at a time. A loop that is left gives back what it had in hand.

    Nobody tells an iterator that its loop was left: it notices when it is forgotten, at once in CPython, and by
    `close`.

    Attributes:
        reader: the thread that asked last.
        task: for which its messages are in hand, until it is forgotten; None where none are, as of a reader.
    """

    def __init__(self, thread: LoopThread, make: Callable[[], AsyncIterator[T]]) -> None:
        """*make* is called on the loop, when the first one is asked for."""
        self._thread = thread
        self._make = make
        self._source: AsyncIterator[T] | None = None
        self._one_at_a_time = threading.Lock()
        self._ended = False
        self.reader: threading.Thread | None = None
        self.task: asyncio.Task[Any] | None = None

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        """The next one; waits for it. Raises what the ``async for`` raises."""
        with self._one_at_a_time:
            if self._ended:
                raise StopIteration
            self.reader = threading.current_thread()
            try:
                found = self._thread.call(self._step)
            except BaseException:
                self._forget()  # what came between is given back: nobody has seen it
                raise
            if found is None:
                self.close()
                raise StopIteration
            return found[0]

    def close(self) -> None:
        """Give back what is in hand, and end; harmless when repeated."""
        self._ended = True
        self._forget()

    def __del__(self) -> None:
        self._forget()

    async def _step(self) -> tuple[T] | None:
        if self._source is None:
            self._source = self._make()
        source = self._source
        try:
            found = await anext(source)
        except StopAsyncIteration:
            return None
        of_group: object = source
        if isinstance(of_group, Messages | Batches):
            if self.task is None:
                self.task = asyncio.ensure_future(asyncio.Event().wait())  # ends when it is cancelled
            of_group.hold_for(self.task)
        return (found,)

    def _forget(self) -> None:
        """Let the source go where it lives."""
        source, task = self._source, self.task
        self._source = self.task = None
        box = [source]
        del source

        def go() -> None:
            box.clear()
            if task is not None:
                task.cancel()

        if box[0] is not None:
            self._thread.later(go)
