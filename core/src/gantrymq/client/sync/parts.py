"""Base classes of the client's classes for threads: what is special to threads. `twins` adds the other methods.

A loop takes messages from a `MessageStream`. A handler runs in threads of its own. A transaction is a ``with`` block,
and its check runs in a thread. A send that is not waited for returns a `concurrent.futures.Future`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import copy_context
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import attrs

from gantrymq.client.connection.base import BaseClient
from gantrymq.client.group.consumer import CONCURRENCY
from gantrymq.client.group.consumer import Consumer as AsyncConsumer
from gantrymq.client.group.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from gantrymq.client.message import Message, ReceivedMessage, TransactionState
from gantrymq.client.pop.consumer import PopConsumer as AsyncPopConsumer
from gantrymq.client.producing.producer import Producer as AsyncProducer
from gantrymq.client.producing.transactions import Transaction
from gantrymq.client.reading.reader import Reader as AsyncReader
from gantrymq.client.sending.results import SendResult
from gantrymq.client.sending.selectors import Destination
from gantrymq.client.sync.portal import Portal, wait_result
from gantrymq.client.sync.streams import ChunkedMessageStream, MessageStream
from gantrymq.client.user_functions import EXITS, call_function, check_function, require_plain
from gantrymq.errors import ClientError, InvalidParameter

if TYPE_CHECKING:
    from gantrymq.client.tracing.message_trace import MessageTrace

logger = logging.getLogger("gantrymq.client")

_ASYNC: Final = "an async one belongs to gantrymq.client.TransactionProducer"
_MOST_CONCURRENCY: Final = 1024

AnyStream = TypeVar("AnyStream", bound=MessageStream[Any])
Item = TypeVar("Item")
Wrapped = TypeVar("Wrapped", bound=BaseClient)
TracedClient = AsyncProducer | AsyncConsumer | AsyncLitePullConsumer | AsyncPopConsumer
Traced = TypeVar("Traced", bound=TracedClient)
OfGroup = TypeVar("OfGroup", bound=TracedClient | AsyncReader)
Iterated = TypeVar("Iterated", AsyncLitePullConsumer, AsyncPopConsumer, AsyncReader)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Check = Callable[[ReceivedMessage], TransactionState]


def from_async(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method for threads that runs *method* of the wrapped object in the event loop, and waits for it."""

    @wraps(method)
    def call(self: InThreads[Any], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._portal.call(lambda: method(self._wrapped, *args, **kwargs))

    return call


def from_sync(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """As `from_async`, for a method that does not wait."""

    @wraps(method)
    def call(self: InThreads[Any], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._portal.call_sync(lambda: method(self._wrapped, *args, **kwargs))

    return call


def from_iterator(
    method: Callable[Concatenate[Any, Arguments], AsyncIterator[Item]],
) -> Callable[Concatenate[Any, Arguments], MessageStream[Item]]:
    """Return a method for threads that iterates as *method* of the wrapped object does."""

    @wraps(method)
    def call(self: SyncBaseClient[Any], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> MessageStream[Item]:
        source = self._portal.call_sync(lambda: method(self._wrapped, *args, **kwargs))
        return self._client.track(MessageStream(self._portal, lambda: source))

    shown = signature(method).replace(return_annotation="MessageStream[ReceivedMessage]")
    call.__signature__ = shown  # type: ignore[attr-defined]  # for `help`
    return call


class Owner(Protocol):
    """The client for threads, as its producers, consumers and readers need it."""

    @property
    def is_started(self) -> bool:
        """Whether the client is between `start` and `close`."""

    def close_wrapped(self, wrapped: BaseClient, timeout_s: float | None) -> None:
        """Close one object created by the client."""

    def track(self, stream: AnyStream) -> AnyStream:
        """Register *stream* so that `close` handles its in-flight messages; returns it."""


class InThreads(Generic[Wrapped]):
    """An object of the async client in the event loop of another thread."""

    _wrapped: Wrapped

    @property
    def _portal(self) -> Portal:
        """The portal of the event loop. Raises ClientError: the object is not started, or closed."""
        raise NotImplementedError

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers in use. Raises ClientError if the client is not started."""
        return self._portal.call_sync(lambda: self._wrapped.name_servers)

    wait_ready = from_async(BaseClient.wait_ready)

    def close(self, timeout_s: float | None = None) -> None:
        """Finish work in progress and notify the brokers, within *timeout_s* seconds. May be called repeatedly."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncBaseClient(InThreads[Wrapped]):
    """A started client object of `gantrymq.client.sync.Client`; closed with it, or earlier by `close` or ``with``."""

    def __init__(self, client: Owner, portal: Portal, wrapped: Wrapped) -> None:
        """Created only by `Client`: wraps *wrapped*, which runs in the event loop of *portal*."""
        self._client = client  # keeps the client alive as long as its parts
        self._own_portal = portal
        self._wrapped = wrapped

    @property
    def _portal(self) -> Portal:
        if not self._wrapped.is_started:
            raise ClientError(f"this {type(self).__name__} is closed")
        return self._own_portal

    @property
    def is_started(self) -> bool:
        """Whether it is not closed yet."""
        return self._wrapped.is_started

    set_name_servers = from_sync(BaseClient.set_name_servers)

    def close(self, timeout_s: float | None = None) -> None:
        """Finish work in progress and notify the brokers, within *timeout_s* seconds. May be called repeatedly.

        Does not wait for in-flight messages of the calling thread.
        """
        if self._client.is_started:
            self._client.close_wrapped(self._wrapped, timeout_s)

    def __enter__(self) -> Self:
        return self


class GroupPart(SyncBaseClient[OfGroup]):
    """A producer or consumer of a group."""

    @property
    def group(self) -> str:
        """Name of the group."""
        return self._wrapped.group


class TracedPart(GroupPart[Traced]):
    """A producer or consumer with a message trace."""

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._wrapped.trace


class ProducerPart(TracedPart[AsyncProducer]):
    """A send that is not waited for."""

    def send_soon(
        self, message: Message, queue: Destination | None = None, timeout_s: float | None = None
    ) -> Future[SendResult]:
        """Start to send as `send` and return a future; its ``result()`` waits, and raises the errors of `send`.

        `close` waits for it. Messages of one thread are written in the order of its calls. Beyond ``max_under_way``,
        sends wait in a queue that takes some 3 KB plus the body for each: wait for the results of some sends before
        starting more.
        """

        async def begun() -> SendResult:
            return await self._wrapped.send_soon(message, queue, timeout_s)

        return self._portal.submit(begun)


class TransactionPart(SyncBaseClient[Any]):
    """Transactions as ``with`` blocks."""

    @contextmanager
    def transaction(self, message: Message, timeout_s: float | None = None) -> Iterator[Transaction]:
        """Store *message* as a half message, and commit or roll it back at the end of the block.

        An exception rolls it back and propagates; otherwise it is committed, or `Transaction.state` is applied. If the
        broker does not confirm the decision, also after `close`, that is logged, and the broker calls the producer's
        check.

        Args:
            message: not modified; without a delay.
            timeout_s: as in `Producer.send`.

        Raises:
            ClientError: as `gantrymq.client.TransactionProducer.transaction`.
        """
        decided = self._wrapped.transaction(message, timeout_s)
        transaction = self._portal.call(decided.__aenter__)
        try:
            yield transaction
        except BaseException as error:
            self._exit_block(decided, transaction, error)
            raise
        self._exit_block(decided, transaction, None)

    def _exit_block(
        self, decided: AbstractAsyncContextManager[Transaction], transaction: Transaction, error: BaseException | None
    ) -> None:
        """Leave the block; *error* is re-raised by the caller."""

        async def left() -> None:
            await decided.__aexit__(None if error is None else type(error), error, None)

        try:
            self._own_portal.call(left)
        except ClientError as problem:  # the loop was stopped: the client was closed inside the block
            logger.warning("the end of transaction %s: %s; the broker will check", transaction.id, problem)


@attrs.frozen
class _ThreadedCheck:
    """A check for the event loop; equal to another one with the same function."""

    check: Check

    async def __call__(self, message: ReceivedMessage) -> TransactionState:
        return await asyncio.to_thread(
            lambda: require_plain(call_function(self.check, message), "the check of a transaction")
        )


def run_check_in_thread(check: Check) -> Callable[[ReceivedMessage], Awaitable[TransactionState]]:
    """Return *check* for the event loop.

    Raises:
        InvalidParameter: it is async, a generator function, or not callable.
    """
    check_function(check, "the check of a transaction", plain=_ASYNC)
    return _ThreadedCheck(check)


class IteratedPart(GroupPart[Iterated]):
    """Loops over messages."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Iterate over messages one by one, as the ``async for`` of `gantrymq.client` does."""
        self._portal.check_caller()
        return self._client.track(MessageStream(self._portal, self._wrapped.__aiter__))


class ConsumerPart(TracedPart[AsyncConsumer]):
    """Loops and handlers of a member of a consumer group."""

    def __iter__(self) -> MessageStream[ReceivedMessage]:
        """Iterate over messages one by one until the consumer is closed; each thread may have its own iterator."""
        self._portal.check_caller()
        if self._wrapped.settings.auto_ack:
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
            handler, f"the handler of {self._wrapped.group}", plain="an async one belongs to gantrymq.client.Consumer"
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

    def _wrap_handler(self, pool: ThreadPoolExecutor, handler: Callable[[Any], object]) -> Callable[[Any], Any]:
        """Return an async handler that calls *handler* in *pool*, and sets `Portal.current_task` in that thread."""
        portal, name = self._portal, f"the handler of {self._wrapped.group}"

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
