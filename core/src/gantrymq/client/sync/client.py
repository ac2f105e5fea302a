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
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from gantrymq.client.calls.connection_config import ConnectOptions
from gantrymq.client.client import Client as AsyncClient
from gantrymq.client.connection.base import READY_TIMEOUT_S, BaseClient
from gantrymq.client.sync.parts import Check, run_check_in_thread
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
    from gantrymq.client.group.settings import ConsumerOptions, LitePullOptions
    from gantrymq.client.pop.consumer import PopOptions
    from gantrymq.client.producing.producer import ProducerOptions
    from gantrymq.client.reading.reader import ReaderOptions
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Client"]

Wrapper = TypeVar("Wrapper")
AnyStream = TypeVar("AnyStream", bound=MessageStream[Any])

LOOP_GRACE_S: Final = 10.0  # an abandoned iterator may be kept alive, for example by a traceback


class Client:
    """One set of connections with its producers and consumers; used with ``with``, or between `start` and `close`."""

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
        self._portal: Portal | None = None
        self._wrapped = AsyncClient(namesrv, hooks=hooks, trace=trace, **connect)
        # Reentrant: a signal handler may close a client that its own thread is starting.
        self._lifecycle_lock = threading.RLock()
        self._starting: Portal | None = None  # while `start` is running
        self._start_cancelled = False  # `close` was called while `start` was running
        self._streams = weakref.WeakSet[MessageStream[Any]]()
        self._wrappers_lock = threading.Lock()
        self._wrappers = weakref.WeakValueDictionary[BaseClient, Any]()  # producers, by the wrapped one
        self._admin: Admin | None = None

    def start(self) -> None:
        """Start the thread, and heartbeats. May be called repeatedly.

        Raises:
            OptionUnusable: the address of a name server is not host:port, or a TLS setting cannot be used.
            ClientError: an event loop runs in this thread, gevent or eventlet has replaced threads by greenlets, or the
                client was closed meanwhile.
        """
        with self._lifecycle_lock:
            if self._portal is not None:
                self._portal.check_caller()
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
            self._portal = portal

    @property
    def is_started(self) -> bool:
        """Whether the client is between `start` and `close`."""
        return self._portal is not None

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers in use."""
        return self._started().call_sync(lambda: self._wrapped.name_servers)

    def set_name_servers(self, namesrv: str) -> None:
        """Use other name servers from now on, ``host:port;host:port``, such as when a cluster moves.

        Raises:
            ClientError: an address is not host:port, or the client is not started.
        """
        self._started().call_sync(lambda: self._wrapped.set_name_servers(namesrv))

    def wait_ready(self, topic: str | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a name server answers and, with *topic*, knows brokers of it; retried until then.

        Raises:
            CallTimeout: that takes longer than *timeout_s* seconds; the message says what was missing last.
        """
        self._started().call(lambda: self._wrapped.wait_ready(topic, timeout_s))

    def producer(self, group: str, **options: Unpack[ProducerOptions]) -> Producer:
        """Return the started producer of *group*, which is created once and reused until it is closed.

        Args:
            group: producer group, named after the application.
            options: as in `gantrymq.client.Client.producer`; later calls must give the same ones, or none.

        Raises:
            InvalidParameter, OptionUnusable: a name or option is not valid.
            ClientError: the client is not started, or has a producer of that group with other options.
        """

        portal = self._started()
        return self._wrapper_of(portal.call_sync(lambda: self._wrapped.producer(group, **options)), Producer)

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
        portal = self._started()
        checked = run_check_in_thread(check)
        wrapped = portal.call_sync(lambda: self._wrapped.transaction_producer(group, checked, **options))
        return self._wrapper_of(wrapped, TransactionProducer)

    def consumer(self, group: str, topics: str | Mapping[str, str], **options: Unpack[ConsumerOptions]) -> Consumer:
        """Return a started member of the consumer group *group*; arguments as in `gantrymq.client.Client.consumer`.

        *on_rebalance* is called in the client's own thread: it must not call the client or block.

        Raises:
            InvalidParameter: a name or option is not valid.
            ClientError: the client is not started, or has a consumer of that group.
        """

        portal = self._started()
        wrapped = portal.call_sync(lambda: self._wrapped.consumer(group, topics, **options))
        return Consumer(self, portal, wrapped)

    def lite_pull(
        self, group: str, topics: str | Mapping[str, str] | None = None, **options: Unpack[LitePullOptions]
    ) -> LitePullConsumer:
        """Return a started lite pull consumer of *group*; arguments as in `gantrymq.client.Client.lite_pull`.

        *on_rebalance* is called in the client's own thread: it must not call the client or block. Raises as `consumer`.
        """

        portal = self._started()
        return LitePullConsumer(
            self, portal, portal.call_sync(lambda: self._wrapped.lite_pull(group, topics, **options))
        )

    def pop_consumer(self, group: str, topic: str, **options: Unpack[PopOptions]) -> PopConsumer:
        """Return a started pop consumer of *group*; arguments as in `gantrymq.client.Client.pop_consumer`.

        Raises:
            InvalidParameter: a name or option is not valid.
            ClientError: the client is not started.
        """

        portal = self._started()
        return PopConsumer(self, portal, portal.call_sync(lambda: self._wrapped.pop_consumer(group, topic, **options)))

    def reader(self, topic: str | None = None, **options: Unpack[ReaderOptions]) -> Reader:
        """Return a new started reader of *topic*; arguments as in `gantrymq.client.Client.reader`.

        Raises:
            InvalidParameter: a name or option is not valid.
            ClientError: the client is not started.
        """

        portal = self._started()
        return Reader(self, portal, portal.call_sync(lambda: self._wrapped.reader(topic, **options)))

    @property
    def admin(self) -> Admin:
        """Administration of clusters, topics and groups. Raises ClientError: the client is not started."""

        portal = self._started()
        if self._admin is None or not self._admin.is_started:
            self._admin = Admin(self, portal, portal.call_sync(lambda: self._wrapped.admin))
        return self._admin

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
            portal = self._portal
            if portal is None:
                return
            if not portal.is_alive:
                self._portal = self._admin = None
                return
            portal.check_caller()
            try:
                self._end(portal, self._wrapped, timeout_s)
            finally:
                self._portal = self._admin = None
                portal.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        portal = getattr(self, "_portal", None)
        if portal is not None and not portal.is_of_another_process:
            warnings.warn("a Client was not closed; use 'with Client(...)'", ResourceWarning, stacklevel=2, source=self)
            portal.stop_after(self._wrapped.close)

    def _wrapper_of(self, wrapped: Any, kind: Callable[[Client, Portal, Any], Wrapper]) -> Wrapper:
        """Return the wrapper of *wrapped* for threads, the same one each time."""
        with self._wrappers_lock:
            found: Wrapper | None = self._wrappers.get(wrapped)
            if found is None:
                found = self._wrappers[wrapped] = kind(self, self._started(), wrapped)
            return found

    # --- for objects of this client -----------------------------------------------------------------------------------

    def close_wrapped(self, wrapped: BaseClient, timeout_s: float | None) -> None:
        """Close one object created by the client."""
        if self._portal is not None and self._portal.is_alive:
            self._end(self._portal, wrapped, timeout_s)

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

    def _started(self) -> Portal:
        if self._portal is None:
            raise ClientError("this Client is not started; use 'with Client(...)' or start()")
        return self._portal


def _is_other_running(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and thread.is_alive()
