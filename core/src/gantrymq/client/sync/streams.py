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

T = TypeVar("T")

_CHUNK_SIZE: Final = 64  # maximum number of messages per chunk
_CHUNK_S: Final = 0.05  # after which undelivered messages of a chunk are given back


class MessageStream(Generic[T]):
    """An iterator for one thread at a time. A loop that is left gives its in-flight messages back.

    An iterator is not notified when its loop is left: it gives messages back when it is garbage collected, which in
    CPython happens at once, or by `close`.

    Attributes:
        last_thread: the thread that requested a message last.
        task: owner of the in-flight messages until they are released; None without any, as for a reader.
    """

    def __init__(self, portal: Portal, make: Callable[[], AsyncIterator[T]]) -> None:
        """*make* is called in the loop when the first message is requested."""
        self._portal = portal
        self._make: Callable[[], Any] = make
        self._source: Any = None
        self._lock = threading.Lock()
        self._ended = False
        self._consumed = 0  # consumed messages of the source, if it counts them
        self.last_thread: threading.Thread | None = None
        self.task: asyncio.Task[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """Wait for the next message. Raises the errors of the ``async for``."""
        with self._lock:
            return self._request(self._fetch)

    def close(self) -> None:
        """Give in-flight messages back and end the iteration. May be called repeatedly."""
        self._ended = True
        self._discard_source()

    def __del__(self) -> None:
        self._discard_source()

    def settle(self) -> None:
        """Acknowledge consumed messages, before the consumer is closed. Called in the loop."""
        if isinstance(self._source, Chunks):
            self._source.settle(self._consumed)

    def _request(self, step: Callable[[], Any]) -> T:
        """Return the result of *step*, run in the loop."""
        if self._ended:
            raise StopIteration
        self.last_thread = threading.current_thread()
        try:
            found: tuple[T] | None = self._portal.call(step)
        except BaseException:
            self._discard_source()  # give back messages that arrived during the interruption
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
        """Keep messages of a group in flight after this call, whose task ends with it. Called in the loop."""
        if isinstance(source, MessageIterator | BatchIterator | Chunks):
            if self.task is None:
                self.task = asyncio.ensure_future(asyncio.Event().wait())  # runs until cancelled
            source.bind_to_task(self.task)

    def _discard_source(self) -> None:
        """Drop the source in the thread of its loop."""
        box, task, consumed = [self._source], self.task, self._consumed
        self._source = self.task = None

        def discard() -> None:
            source = box.pop()
            if isinstance(source, Chunks):
                source.settle(consumed)
            if task is not None:
                task.cancel()

        if box[0] is not None:
            self._portal.call_soon(discard)


class ChunkedMessageStream(MessageStream[ReceivedMessage]):
    """Messages of a consumer that acknowledges automatically, fetched in chunks."""

    def __init__(self, portal: Portal, make: Callable[[], Chunks]) -> None:
        """As `MessageStream`."""
        self._left = deque[ReceivedMessage]()
        super().__init__(portal, make)  # type: ignore[arg-type]  # called by `_fetch_chunk`
        self._left_lock = threading.Lock()  # guards `_left`: threads take from it, the loop empties it
        self._next_size = 1
        self._delivered = 0  # delivered since the first chunk
        self._put_back = False  # messages of the last chunk were given back

    def __next__(self) -> ReceivedMessage:
        """Wait for the next message. Raises the errors of the ``async for``."""
        with self._lock:
            self._portal.check_caller()
            with self._left_lock:
                self._consumed = self._delivered
                if self._left and not self._ended:
                    self._delivered += 1
                    return self._left.popleft()
            self._next_size = 1 if self._put_back else min(_CHUNK_SIZE, self._next_size * 2)
            found = self._request(self._fetch_chunk)
            self._delivered += 1
            return found

    async def _fetch_chunk(self) -> tuple[ReceivedMessage] | None:
        if self._source is None:
            self._source = self._make()
        chunks: Chunks = self._source
        try:
            first, *left = await chunks.next_chunk(self._consumed, self._next_size)
        except StopAsyncIteration:
            return None
        self._keep_in_flight(chunks)
        self._put_back = False
        if left:
            self._left.extend(left)
            asyncio.get_running_loop().call_later(_CHUNK_S, _put_back, weakref.ref(self), chunks, left[-1])
        return (first,)

    def put_back(self, chunks: Chunks, last: ReceivedMessage) -> None:
        """Give back undelivered messages of the chunk that ends with *last*. Called in the loop."""
        with self._left_lock:
            if not self._left or self._left[-1] is not last:
                return
            self._left.clear()
            chunks.keep_first(self._consumed)
        self._put_back = True

    def _discard_source(self) -> None:
        with self._left_lock:
            self._left.clear()
        super()._discard_source()
        self._delivered = self._consumed = 0


def _put_back(loop: weakref.ref[ChunkedMessageStream], chunks: Chunks, last: ReceivedMessage) -> None:
    found = loop()
    if found is not None:
        found.put_back(chunks, last)
