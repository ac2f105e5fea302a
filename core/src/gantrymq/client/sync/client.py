"""The client for threads: an event loop in its own thread does the work, and every call waits for it.

    with Client("127.0.0.1:9876") as client:
        client.producer("shop").send(Message("Orders", b"one apple"))
        for message in client.consumer("billing", "Orders", consume_from="first"):
            print(message.body)

Every method may be called from any thread. Producers and consumers created by a client are started, and are closed
with the client unless closed before.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from gantrymq.client.calls.connection_config import ConnectOptions
from gantrymq.client.client import Client as AsyncClient
from gantrymq.client.connection.base import BaseClient
from gantrymq.client.sync.parts import Check, InThreads, from_sync, run_check_in_thread
from gantrymq.client.sync.portal import Portal
from gantrymq.client.sync.streams import MessageStream
from gantrymq.client.sync.twins import (
    Admin,
    Consumer,
    LitePullConsumer,
    PopConsumer,
    Producer,
    Reader,
    TransactionProducer,
)
from gantrymq.errors import ClientError

if TYPE_CHECKING:
    from gantrymq.client.producing.producer import ProducerOptions
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

Arguments = ParamSpec("Arguments")
Wrapper = TypeVar("Wrapper")
AnyStream = TypeVar("AnyStream", bound=MessageStream[Any])

LOOP_GRACE_S: Final = 10.0  # an abandoned iterator may be kept alive, for example by a traceback


def from_factory(
    method: Callable[Concatenate[AsyncClient, Arguments], BaseClient], kind: Callable[[Client, Portal, Any], Wrapper]
) -> Callable[Concatenate[Any, Arguments], Wrapper]:
    """Return a method for threads that creates an object with *method* of the async client, and wraps it as *kind*."""

    @wraps(method)
    def call(self: Client, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Wrapper:
        return self._wrapper_of(self._portal.call_sync(lambda: method(self._wrapped, *args, **kwargs)), kind)

    return call


class Client(InThreads[AsyncClient]):
    """One set of connections with its producers and consumers; used with ``with``, or between `start` and `close`.

    Functions given as options, such as *on_rebalance* and *selector*, are called in the client's own thread: they must
    not call the client, or block.
    """

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **connect: Unpack[ConnectOptions],
    ) -> None:
        """Create the client; nothing is opened before `start`.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            hooks: for all its producers and consumers, called in the client's own thread; see
                `gantrymq.client.tracing.hooks`.
            trace: for all its producers and consumers without an own setting; see `MessageTrace`.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: an option does not exist, or one of *hooks* is not a hook.
        """
        self._running: Portal | None = None
        self._wrapped = AsyncClient(namesrv, hooks=hooks, trace=trace, **connect)
        # Reentrant: a signal handler may close a client that its own thread is starting.
        self._lifecycle_lock = threading.RLock()
        self._starting: Portal | None = None  # while `start` is running
        self._start_cancelled = False  # `close` was called while `start` was running
        self._streams = weakref.WeakSet[MessageStream[Any]]()
        self._wrappers_lock = threading.Lock()
        self._wrappers = weakref.WeakValueDictionary[BaseClient, Any]()  # producers, by the wrapped one

    def start(self) -> None:
        """Start the thread, and heartbeats. May be called repeatedly.

        Raises:
            OptionUnusable: the address of a name server is not host:port, or a TLS setting cannot be used.
            ClientError: an event loop runs in this thread, gevent or eventlet has replaced threads by greenlets, or the
                client was closed meanwhile.
        """
        with self._lifecycle_lock:
            if self._running is not None:
                self._running.check_caller()
                return
            self._start_cancelled = False
            portal = self._starting = Portal()
            try:
                portal.call(self._wrapped.start)
                if self._start_cancelled:
                    portal.call(self._wrapped.close)
                    raise ClientError("this Client was closed while it was being started")
            except BaseException:
                portal.stop()
                raise
            finally:
                self._starting = None
            self._running = portal

    @property
    def is_started(self) -> bool:
        """Whether the client is between `start` and `close`."""
        return self._running is not None

    set_name_servers = from_sync(AsyncClient.set_name_servers)
    producer = from_factory(AsyncClient.producer, Producer)

    def transaction_producer(self, group: str, check: Check, **options: Unpack[ProducerOptions]) -> TransactionProducer:
        """Return the started transaction producer of *group*, reused as in `producer`.

        Args:
            group: producer group; any member of it may be queried about a message of any other.
            check: a plain function, called in a thread, that returns the outcome of the work that belongs to a message;
                later calls must give the same one.
            options: as in `gantrymq.client.Client.producer`.

        Raises:
            as `producer`.
        """
        checked = run_check_in_thread(check)
        wrapped = self._portal.call_sync(lambda: self._wrapped.transaction_producer(group, checked, **options))
        return self._wrapper_of(wrapped, TransactionProducer)

    consumer = from_factory(AsyncClient.consumer, Consumer)
    lite_pull = from_factory(AsyncClient.lite_pull, LitePullConsumer)
    pop_consumer = from_factory(AsyncClient.pop_consumer, PopConsumer)
    reader = from_factory(AsyncClient.reader, Reader)

    @property
    def admin(self) -> Admin:
        """Administration of clusters, topics and groups. Raises ClientError: the client is not started."""
        return self._wrapper_of(self._portal.call_sync(lambda: self._wrapped.admin), Admin)

    def close(self, timeout_s: float | None = None) -> None:
        """Close all producers and consumers, then the connections and the thread. May be called repeatedly.

        Waits for calls of other threads and for their in-flight messages of a consumer; for loops at most 10 s. Does
        not wait for in-flight messages of the calling thread. A `start` that runs in another thread is cancelled and
        raises ClientError. Does nothing in a forked process.

        Args:
            timeout_s: maximum duration in seconds; work in progress is cancelled then.

        Raises:
            ClientError: an event loop runs in this thread.
        """
        if (starting := self._starting) is not None:
            self._start_cancelled = True
            starting.submit(self._wrapped.close)
        with self._lifecycle_lock:
            portal = self._running
            if portal is None:
                return
            if not portal.is_alive:
                self._running = None
                return
            portal.check_caller()
            try:
                self._end(portal, self._wrapped, timeout_s)
            finally:
                self._running = None
                portal.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __del__(self) -> None:
        portal = getattr(self, "_running", None)
        if portal is not None and not portal.is_of_another_process:
            warnings.warn("a Client was not closed; use 'with Client(...)'", ResourceWarning, stacklevel=2, source=self)
            portal.stop_after(self._wrapped.close)

    def _wrapper_of(self, wrapped: Any, kind: Callable[[Client, Portal, Any], Wrapper]) -> Wrapper:
        """Return the wrapper of *wrapped* for threads, the same one as long as it is in use."""
        with self._wrappers_lock:
            found: Wrapper | None = self._wrappers.get(wrapped)
            if found is None:
                found = self._wrappers[wrapped] = kind(self, self._portal, wrapped)
            return found

    @property
    def _portal(self) -> Portal:
        if self._running is None:
            raise ClientError("this Client is not started; use 'with Client(...)' or start()")
        return self._running

    # --- for objects of this client -----------------------------------------------------------------------------------

    def close_wrapped(self, wrapped: BaseClient, timeout_s: float | None) -> None:
        """Close one object created by the client."""
        if self._running is not None and self._running.is_alive:
            self._end(self._running, wrapped, timeout_s)

    def track(self, stream: AnyStream) -> AnyStream:
        """Register *stream* so that `close` handles its in-flight messages; returns it."""
        self._streams.add(stream)
        return stream

    def _end(self, portal: Portal, wrapped: BaseClient, timeout_s: float | None) -> None:
        """Close *wrapped*.

        Ignores in-flight messages of this thread, and waits a limited time for loops of other threads.
        """
        streams = list(self._streams)
        own_streams = [each for each in streams if each.last_thread is None or not _is_other_running(each.last_thread)]
        own_tasks = [portal.current_task, *(each.task for each in own_streams)]
        other_tasks = [each.task for each in streams if each not in own_streams]

        def mark_closed_by(tasks: list[Any]) -> None:
            for task in tasks:
                if task is not None and not task.done():
                    wrapped.closed_by(task)

        async def end() -> None:
            for each in own_streams:
                each.settle()
            mark_closed_by(own_tasks)
            timer = asyncio.get_running_loop().call_later(LOOP_GRACE_S, mark_closed_by, other_tasks)
            try:
                await wrapped.close(timeout_s)
            finally:
                timer.cancel()

        portal.call_soon(portal.forget_error)  # closing goes on whatever was raised before
        portal.call(end)


def _is_other_running(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and thread.is_alive()
