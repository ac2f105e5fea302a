"""Messages as a ``for`` loop gets them, out of an ``async for`` of the loop's thread.

Every call of that thread takes some 0.1 ms, so that a `Loop` takes several messages at a time. Acknowledging is as one
by one: what was handed out when the loop asks for the next one is consumed. What was not handed out goes back, after a
while or when the loop is left.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Generic, Self, TypeVar

from gantrymq.client.group.streams import Batches, Messages, Portions
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.sync.loop_thread import LoopThread

__all__ = ["Loop", "Stream"]

T = TypeVar("T")

_PORTION: Final = 64  # messages, at most
_PORTION_S: Final = 0.05  # after which what was not handed out waits again


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
        self._make: Callable[[], Any] = make
        self._source: Any = None
        self._one_at_a_time = threading.Lock()
        self._ended = False
        self._consumed = 0  # of what the source gave, as far as it has to be told
        self.reader: threading.Thread | None = None
        self.task: asyncio.Task[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """The next one; waits for it. Raises what the ``async for`` raises."""
        with self._one_at_a_time:
            return self._asked(self._step)

    def close(self) -> None:
        """Give back what is in hand, and end; harmless when repeated."""
        self._ended = True
        self._forget()

    def __del__(self) -> None:
        self._forget()

    def settle(self) -> None:
        """On the loop, before the consumer is closed: acknowledge what was consumed."""
        if isinstance(self._source, Portions):
            self._source.settle(self._consumed)

    def _asked(self, step: Callable[[], Any]) -> T:
        """What *step* finds on the loop."""
        if self._ended:
            raise StopIteration
        self.reader = threading.current_thread()
        try:
            found: tuple[T] | None = self._thread.call(step)
        except BaseException:
            self._forget()  # what came between is given back: nobody has seen it
            raise
        if found is None:
            self.close()
            raise StopIteration
        return found[0]

    async def _step(self) -> tuple[T] | None:
        if self._source is None:
            self._source = self._make()
        source = self._source
        try:
            found = await anext(source)
        except StopAsyncIteration:
            return None
        self._hold(source)
        return (found,)

    def _hold(self, source: object) -> None:
        """On the loop: messages of a group are in hand until the next call, whose task is over before."""
        if isinstance(source, Messages | Batches | Portions):
            if self.task is None:
                self.task = asyncio.ensure_future(asyncio.Event().wait())  # ends when it is cancelled
            source.hold_for(self.task)

    def _forget(self) -> None:
        """Let the source go where it lives."""
        box, task, consumed = [self._source], self.task, self._consumed
        self._source = self.task = None

        def go() -> None:
            source = box.pop()
            if isinstance(source, Portions):
                source.settle(consumed)
            if task is not None:
                task.cancel()

        if box[0] is not None:
            self._thread.later(go)


class Loop(Stream[ReceivedMessage]):
    """Messages of a consumer that acknowledges by itself."""

    def __init__(self, thread: LoopThread, make: Callable[[], Portions]) -> None:
        """As `Stream`."""
        self._left = deque[ReceivedMessage]()
        super().__init__(thread, make)  # type: ignore[arg-type]  # asked by `_more`
        self._counting = threading.Lock()  # of `_left`, which is taken from here and put back there
        self._most = 1
        self._handed = 0  # since the portions began
        self._put_back = False  # the last portion was too much

    def __next__(self) -> ReceivedMessage:
        """The next one; waits for it. Raises what the ``async for`` raises."""
        with self._one_at_a_time:
            self._thread.check()
            with self._counting:
                self._consumed = self._handed
                if self._left and not self._ended:
                    self._handed += 1
                    return self._left.popleft()
            self._most = 1 if self._put_back else min(_PORTION, self._most * 2)
            found = self._asked(self._more)
            self._handed += 1
            return found

    async def _more(self) -> tuple[ReceivedMessage] | None:
        if self._source is None:
            self._source = self._make()
        portions: Portions = self._source
        try:
            first, *left = await portions.more(self._consumed, self._most)
        except StopAsyncIteration:
            return None
        self._hold(portions)
        self._put_back = False
        if left:
            self._left.extend(left)
            asyncio.get_running_loop().call_later(_PORTION_S, _put_back, weakref.ref(self), portions, left[-1])
        return (first,)

    def put_back(self, portions: Portions, last: ReceivedMessage) -> None:
        """On the loop: the portion that ends with *last* is over; what was not handed out is for anybody."""
        with self._counting:
            if not self._left or self._left[-1] is not last:
                return
            self._left.clear()
            portions.keep_one(self._consumed)
        self._put_back = True

    def _forget(self) -> None:
        with self._counting:
            self._left.clear()
        super()._forget()
        self._handed = self._consumed = 0


def _put_back(loop: weakref.ref[Loop], portions: Portions, last: ReceivedMessage) -> None:
    found = loop()
    if found is not None:
        found.put_back(portions, last)
