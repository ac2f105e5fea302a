"""Consumers for threads.

    with Client("127.0.0.1:9876") as client:
        for message in client.consumer("billing", "Orders"):
            print(message.body)

Acknowledgement works as in `gantrymq.client.Consumer`: a message is consumed when the loop requests the next one; an
unconsumed message is delivered again, here or to another member of the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, overload

from gantrymq.client.group.consumer import CONCURRENCY
from gantrymq.client.group.consumer import Consumer as AsyncConsumer
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.sync.base import SyncBaseClient
from gantrymq.client.sync.portal import wait_result
from gantrymq.client.sync.streams import ChunkedMessageStream, MessageStream
from gantrymq.client.user_functions import EXITS, call_function, check_function, require_plain
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG

if TYPE_CHECKING:
    from gantrymq.client.sync.client import Client
    from gantrymq.client.sync.portal import Portal
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Consumer"]

_MOST_CONCURRENCY: Final = 1024


class Consumer(SyncBaseClient[AsyncConsumer]):
    """A member of a consumer group, for any number of threads. Errors as in `gantrymq.client.Consumer`."""

    def __init__(self, client: Client, portal: Portal, wrapped: AsyncConsumer, *, auto_ack: bool) -> None:
        """As `SyncBaseClient`; *auto_ack* as given to the consumer."""
        super().__init__(client, portal, wrapped)
        self._auto_ack = auto_ack

    @property
    def group(self) -> str:
        """Name of the group."""
        return self._wrapped.group

    @property
    def settings(self) -> ConsumerSettings:
        """Settings of the consumer, with defaults."""
        return self._wrapped.settings

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._wrapped.trace

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Iterate over messages one by one until the consumer is closed; each thread may have its own iterator."""
        self._portal.check_caller()
        if self._auto_ack:
            return self._client.track(ChunkedMessageStream(self._portal, self._wrapped.chunks))
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))

    def batches(self, most: int = 32) -> MessageStream[list[ReceivedMessage]]:
        """Iterate over lists of up to *most* waiting messages of one queue; *most* is 1 to 1024."""
        source = self._portal.call_sync(lambda: self._wrapped.batches(most))
        source.for_threads()
        return self._client.track(MessageStream(self._portal, lambda: source))

    @overload
    def run(
        self, handler: Callable[[ReceivedMessage], object], *, concurrency: int = ..., batch_size: None = ...
    ) -> None: ...
    @overload
    def run(
        self, handler: Callable[[list[ReceivedMessage]], object], *, concurrency: int = ..., batch_size: int
    ) -> None: ...
    def run(
        self, handler: Callable[[Any], object], *, concurrency: int = CONCURRENCY, batch_size: int | None = None
    ) -> None:
        """Call *handler* with messages, in *concurrency* threads, until the consumer is closed.

        Ctrl-C waits for running calls, closes the consumer and raises KeyboardInterrupt; a second one does not wait.

        Args:
            handler: a plain function that takes one message, or with *batch_size* a list of up to that many messages of
                one queue. Messages are consumed when it returns; a batch handler that returns a number has consumed
                that many messages, from the first on. Its exceptions are logged, and the messages are delivered again,
                as described in `ReconsumeLater`. It may call the client, and close it.
            concurrency: threads, 1 to 1024.
            batch_size: 1 to 1024; None for single messages.

        Raises:
            InvalidParameter: a number is out of bounds, or *handler* is async, a generator function or not callable.
            KeyboardInterrupt, SystemExit: *handler* raised it; its messages are given back.
        """
        check_function(
            handler, f"the handler of {self.group}", plain="an async one belongs to gantrymq.client.Consumer"
        )
        if not 1 <= concurrency <= _MOST_CONCURRENCY:
            raise InvalidParameter(f"concurrency is {concurrency}; expected 1 to {_MOST_CONCURRENCY}")
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix="gantrymq-consumer")
        try:
            handle = self._wrap_handler(pool, handler)
            running = self._portal.submit(lambda: self._run_on_loop(handle, concurrency, batch_size))
            if (ended := self._wait_closed(running)) is not None:
                raise ended
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def ack(self, message: ReceivedMessage) -> bool:
        """Acknowledge *message*. Return False if it belongs to another member now, or was acknowledged before.

        The offset reaches the broker within ``commit_every_s`` seconds, and at `close`. Raises ClientError: the
        consumer acknowledges automatically.
        """
        return self._portal.call_sync(lambda: self._wrapped.ack(message))

    def nack(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Have *message* delivered again later. Returns and raises as `ack`."""
        return self._portal.call(lambda: self._wrapped.nack(message, delay_level))

    def processing(self, *messages: ReceivedMessage) -> AbstractContextManager[None]:
        """Return a context manager for the processing of *messages*, one or several, in the calling thread.

        As `gantrymq.client.Consumer.processing`; hooks are called in that thread, where the span is the current one.
        """
        return self._portal.call_sync(lambda: self._wrapped.processing(*messages))

    def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Consume *topic* as well, or with another expression."""
        self._portal.call(lambda: self._wrapped.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming *topic*. Does nothing if it is not subscribed."""
        self._portal.call(lambda: self._wrapped.unsubscribe(topic))

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling *queues*, or all if none is given; messages already pulled are still delivered."""
        self._portal.call_sync(lambda: self._wrapped.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Pull *queues* again, or all if none is given."""
        self._portal.call_sync(lambda: self._wrapped.resume(*queues))

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of this member, sorted."""
        return self._portal.call_sync(lambda: self._wrapped.assignment)

    def wait_assigned(self, timeout_s: float = 10.0) -> tuple[MessageQueue, ...]:
        """Wait until every topic was rebalanced, and return the queues of this member. Raises CallTimeout."""
        return self._portal.call(lambda: self._wrapped.wait_assigned(timeout_s))

    def commit(self) -> None:
        """Store the offsets now, in addition to every ``commit_every_s`` seconds."""
        self._portal.call(self._wrapped.commit)

    def _wrap_handler(self, pool: ThreadPoolExecutor, handler: Callable[[Any], object]) -> Callable[[Any], Any]:
        """Return an async handler that calls *handler* in *pool*, and sets `Portal.current_task` in that thread."""
        portal, name = self._portal, f"the handler of {self.group}"

        def call(messages: Any) -> object:
            return require_plain(call_function(handler, messages), name)

        async def handle(messages: Any) -> object:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
            run = copy_context().run
            return await loop.run_in_executor(pool, run, portal.run_for_task, task, lambda: call(messages))

        return handle

    async def _run_on_loop(
        self, handle: Callable[[Any], Any], concurrency: int, batch_size: int | None
    ) -> BaseException | None:
        """Run `gantrymq.client.Consumer.run` in the loop.

        KeyboardInterrupt and SystemExit are returned: raised there, they would end the thread of the loop.
        """
        try:
            await self._wrapped.run(handle, concurrency=concurrency, batch_size=batch_size)
        except EXITS as ended:
            return ended
        return None

    def _wait_closed(self, running: Future[BaseException | None]) -> BaseException | None:
        try:
            return wait_result(running)
        except KeyboardInterrupt:
            try:
                self.close()
            finally:
                running.cancel()
            raise
        except ClientError:
            if not running.cancelled():  # cancelled: the whole client was closed
                raise
            return None
        except BaseException:
            running.cancel()
            raise
