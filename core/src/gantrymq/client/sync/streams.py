"""Messages for a ``for`` loop, taken from an ``async for`` in the event loop's thread.

A call to that thread takes about 0.1 ms, so a `ChunkedMessageStream` takes several messages at a time. Messages are
acknowledged as if they came one by one: a message is consumed when the loop requests the next one. Messages that were
not delivered to the loop go back after a while, or when the loop is left.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Generic, Self, TypeVar

from gantrymq.client.group.streams import BatchIterator, Chunks, MessageIterator
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.sync.portal import Portal

__all__ = ["ChunkedMessageStream", "MessageStream"]

T = TypeVar("T")

_CHUNK_SIZE: Final = 64  # messages, at most
_CHUNK_S: Final = 0.05  # after which what was not handed out waits again


class MessageStream(Generic[T]):
    """Asks for one after the other; one thread at a time. A loop that is left gives back what it had in hand.

    Nobody tells an iterator that its loop was left: it notices when it is forgotten, at once in CPython, and by
    `close`.

    Attributes:
        reader: the thread that asked last.
        task: for which its messages are in hand, until it is forgotten; None where none are, as of a reader.
    """

    def __init__(self, portal: Portal, make: Callable[[], AsyncIterator[T]]) -> None:
        """*make* is called on the loop, when the first one is asked for."""
        self._portal = portal
        self._make: Callable[[], Any] = make
        self._source: Any = None
        self._lock = threading.Lock()
        self._ended = False
        self._consumed = 0  # of what the source gave, as far as it has to be told
        self.last_thread: threading.Thread | None = None
        self.task: asyncio.Task[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """The next one; waits for it. Raises what the ``async for`` raises."""
        with self._lock:
            return self._request(self._fetch)

    def close(self) -> None:
        """Give back what is in hand, and end; harmless when repeated."""
        self._ended = True
        self._discard_source()

    def __del__(self) -> None:
        self._discard_source()

    def settle(self) -> None:
        """On the loop, before the consumer is closed: acknowledge what was consumed."""
        if isinstance(self._source, Chunks):
            self._source.settle(self._consumed)

    def _request(self, step: Callable[[], Any]) -> T:
        """What *step* finds on the loop."""
        if self._ended:
            raise StopIteration
        self.last_thread = threading.current_thread()
        try:
            found: tuple[T] | None = self._portal.call(step)
        except BaseException:
            self._discard_source()  # what came between is given back: nobody has seen it
            raise
        if found is None:
            self.close()
            raise StopIteration
        return found[0]

    async def _fetch(self) -> tuple[T] | None:
        if self._source is None:
            self._source = self._make()
        source = self._source
        try:
            found = await anext(source)
        except StopAsyncIteration:
            return None
        self._keep_in_flight(source)
        return (found,)

    def _keep_in_flight(self, source: object) -> None:
        """On the loop: messages of a group are in hand until the next call, whose task is over before."""
        if isinstance(source, MessageIterator | BatchIterator | Chunks):
            if self.task is None:
                self.task = asyncio.ensure_future(asyncio.Event().wait())  # ends when it is cancelled
            source.bind_to_task(self.task)

    def _discard_source(self) -> None:
        """Let the source go where it lives."""
        box, task, consumed = [self._source], self.task, self._consumed
        self._source = self.task = None

        def go() -> None:
            source = box.pop()
            if isinstance(source, Chunks):
                source.settle(consumed)
            if task is not None:
                task.cancel()

        if box[0] is not None:
            self._portal.call_soon(go)


class ChunkedMessageStream(MessageStream[ReceivedMessage]):
    """Messages of a consumer that acknowledges by itself."""

    def __init__(self, portal: Portal, make: Callable[[], Chunks]) -> None:
        """As `MessageStream`."""
        self._left = deque[ReceivedMessage]()
        super().__init__(portal, make)  # type: ignore[arg-type]  # asked by `_more`
        self._counting = threading.Lock()  # of `_left`, which is taken from here and put back there
        self._most = 1
        self._handed = 0  # since the chunks began
        self._put_back = False  # the last portion was too much

    def __next__(self) -> ReceivedMessage:
        """The next one; waits for it. Raises what the ``async for`` raises."""
        with self._lock:
            self._portal.check_caller()
            with self._counting:
                self._consumed = self._handed
                if self._left and not self._ended:
                    self._handed += 1
                    return self._left.popleft()
            self._most = 1 if self._put_back else min(_CHUNK_SIZE, self._most * 2)
            found = self._request(self._fetch_chunk)
            self._handed += 1
            return found

    async def _fetch_chunk(self) -> tuple[ReceivedMessage] | None:
        if self._source is None:
            self._source = self._make()
        chunks: Chunks = self._source
        try:
            first, *left = await chunks.next_chunk(self._consumed, self._most)
        except StopAsyncIteration:
            return None
        self._keep_in_flight(chunks)
        self._put_back = False
        if left:
            self._left.extend(left)
            asyncio.get_running_loop().call_later(_CHUNK_S, _put_back, weakref.ref(self), chunks, left[-1])
        return (first,)

    def put_back(self, chunks: Chunks, last: ReceivedMessage) -> None:
        """On the loop: the portion that ends with *last* is over; what was not handed out is for anybody."""
        with self._counting:
            if not self._left or self._left[-1] is not last:
                return
            self._left.clear()
            chunks.keep_first(self._consumed)
        self._put_back = True

    def _discard_source(self) -> None:
        with self._counting:
            self._left.clear()
        super()._discard_source()
        self._handed = self._consumed = 0


def _put_back(loop: weakref.ref[ChunkedMessageStream], chunks: Chunks, last: ReceivedMessage) -> None:
    found = loop()
    if found is not None:
        found.put_back(chunks, last)
