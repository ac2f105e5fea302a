"""The client: one set of connections for sending, consuming and administration.

    async with Client("127.0.0.1:9876") as client:
        producer = client.producer("shop")
        await producer.send(Message("Orders", b"one apple"))
        async for message in client.consumer("billing", "Orders", consume_from="first"):
            print(message.body)

The objects that a client creates are started, and are closed with the client if not earlier.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

import attrs

from gantrymq.client.calls.connection_config import ConnectionConfig, ConnectOptions
from gantrymq.client.connection.base import BaseClient, Part
from gantrymq.client.connection.instance import acquire_instance
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.errors import ClientError
from gantrymq.model.names import check_group
from gantrymq.world import Clock

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin
    from gantrymq.client.group.consumer import Consumer
    from gantrymq.client.group.lite_pull import LitePullConsumer
    from gantrymq.client.group.settings import ConsumerOptions, LitePullOptions
    from gantrymq.client.pop.consumer import PopConsumer, PopOptions
    from gantrymq.client.producing.producer import Producer, ProducerOptions
    from gantrymq.client.producing.transactions import Check, TransactionProducer
    from gantrymq.client.reading.reader import Reader, ReaderOptions
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

AnyPart = TypeVar("AnyPart", bound=Part)
Made = TypeVar("Made", bound="Producer")
Options = TypeVar("Options", bound=Mapping[str, object])


class Client(BaseClient):
    """One set of connections and the producers, consumers and readers that use it.

    Used as ``async with``, or between `start` and `close`. Closing it closes everything it created, before the
    connections.
    """

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **connect: Unpack[ConnectOptions],
    ) -> None:
        """Store the options; connections are opened by `start`.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            hooks: for all its producers and consumers, in addition to their own; see `gantrymq.client.tracing.hooks`.
            trace: default for all its producers and consumers; see `MessageTrace`.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: unknown option, or one of *hooks* is not a hook.
        """
        super().__init__()
        self._connection_config = ConnectionConfig.of(type(self), namesrv, **connect)
        self._starting: asyncio.Task[None] | None = None  # while `start` is running
        instrumentation = Instrumentation(hooks, trace)
        self._hooks = instrumentation.hooks
        self._trace: bool | MessageTrace = instrumentation.trace or False
        self._parts: list[Part] = []
        self._producers: dict[str, tuple[Producer, dict[str, Any]]] = {}  # by group, and the options given
        self._admin: Admin | None = None

    async def start(self) -> None:
        """Connect and start heartbeats; may be called repeatedly, also after `close`.

        Raises:
            OptionUnusable: a name server's address is not host:port, a TLS setting cannot be used, or the environment
                holds only one of access key and secret key.
            ClientError: the client was started in another event loop and not closed there, or it was closed, or is
                being closed, meanwhile.
        """
        if self._instance is not None:
            self._started()
            self._check_not_closing()
            return
        if (ending := self._in_this_loop(self._ending)) is not None:
            await asyncio.shield(ending)
        starting = self._in_this_loop(self._starting)
        is_first = starting is None
        if starting is None:
            starting = self._starting = asyncio.get_running_loop().create_task(self._acquire())
        try:
            await asyncio.wait((starting,))
        except asyncio.CancelledError:
            if is_first:
                starting.cancel()
                await asyncio.wait((starting,))
                if self.is_started:  # it just succeeded, but the caller was cancelled
                    self._leave(math.inf)
            raise
        if not starting.cancelled():
            starting.result()
        if not self.is_started:
            raise ClientError("this Client was closed while it was being started")

    async def _acquire(self) -> None:
        if self._instance is not None:  # started by another task while this one waited
            return
        self._instance = await acquire_instance(self._connection_config)
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def set_name_servers(self, namesrv: str) -> None:
        """Use other name servers from now on; see `BaseClient.set_name_servers`."""
        super().set_name_servers(namesrv)
        self._connection_config = attrs.evolve(self._connection_config, namesrv=namesrv)

    async def close(self, timeout_s: float | None = None) -> None:
        """Close everything that the client created, then the connections; see `BaseClient.close`.

        A concurrent `start` is cancelled and raises ClientError.
        """
        if (starting := self._in_this_loop(self._starting)) is not None:
            starting.cancel()
            await asyncio.wait((starting,))
        await super().close(timeout_s)

    def __del__(self) -> None:
        if getattr(self, "_instance", None) is not None:
            text = "a Client was not closed; use 'async with Client(...)'"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def _unusable_error(self) -> ClientError:
        return ClientError("this Client is not started; use 'async with Client(...)' or start()")

    def producer(self, group: str, **options: Unpack[ProducerOptions]) -> Producer:
        """Return the started producer of *group*.

        The first call creates it; later calls return the same one until it is closed, so ``client.producer("shop")``
        may be called in a loop.

        Args:
            group: producer group, named after the application.
            **options: fields of `ProducerSettings`, such as ``retries=5`` or ``selector=by_key(...)``, and ``hooks``
                and ``trace`` as for the client; later calls pass the same options or none.

        Raises:
            InvalidParameter, OptionUnusable: a name or option is not legal.
            ClientError: the client is not started, or has a producer of that group with other options.
        """
        from gantrymq.client.producing.producer import Producer

        return self._get_or_create(
            Producer, group, dict(options), lambda: Producer(group, **self._instrumented(options))
        )

    def transaction_producer(self, group: str, check: Check, **options: Unpack[ProducerOptions]) -> TransactionProducer:
        """Return the started transaction producer of *group*; later calls return the same one, as with `producer`.

        Args:
            group: producer group; any member may be asked about the messages of any other.
            check: returns the outcome for a half message; plain or async. An exception counts as UNKNOWN, and the
                broker checks again. Later calls pass the same one.
            **options: as for `producer`.

        Raises:
            as `producer`.
        """
        from gantrymq.client.producing.transactions import TransactionProducer

        given = {"check": check, **options}
        return self._get_or_create(
            TransactionProducer, group, given, lambda: TransactionProducer(group, check, **self._instrumented(options))
        )

    def consumer(self, group: str, topics: str | Mapping[str, str], **options: Unpack[ConsumerOptions]) -> Consumer:
        """Return a started member of a consumer group.

        Args:
            group: consumer group; its members divide the queues, and all must have the same subscriptions.
            topics: one topic, or several with an expression each.
            **options: fields of `ConsumerSettings`, such as ``orderly=True`` or ``consume_from="first"``, and ``hooks``
                and ``trace`` as for the client.

        Raises:
            InvalidParameter: a name or option is not legal.
            PluginAbsent: no installed plugin offers the allocation strategy.
            ClientError: the client is not started, or has a consumer of that group.
        """
        from gantrymq.client.group.consumer import Consumer

        return self._start_part(Consumer(group, topics, **self._instrumented(options)))

    def lite_pull(
        self, group: str, topics: str | Mapping[str, str] | None = None, **options: Unpack[LitePullOptions]
    ) -> LitePullConsumer:
        """Return a started lite pull consumer.

        Args:
            group: consumer group whose offsets are read and stored.
            topics: topics to subscribe to at the start: one, or several with an expression each; None for a later
                `subscribe` or `assign`.
            **options: fields of `LitePullSettings`, except those for order and failed messages, and ``hooks`` and
                ``trace`` as for the client.

        Raises:
            as `consumer`.
        """
        from gantrymq.client.group.lite_pull import LitePullConsumer

        return self._start_part(LitePullConsumer(group, topics, **self._instrumented(options)))

    def pop_consumer(self, group: str, topic: str, **options: Unpack[PopOptions]) -> PopConsumer:
        """Return a started pop consumer.

        Args:
            group: consumer group; each message is delivered to one of its consumers.
            topic: topic to consume, including redelivered messages.
            **options: fields of `PopSettings`, such as ``invisible_s=60``, and ``hooks`` and ``trace`` as for the
                client.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started.
        """
        from gantrymq.client.pop.consumer import PopConsumer

        return self._start_part(PopConsumer(group, topic, **self._instrumented(options)))

    def reader(self, topic: str | None = None, **options: Unpack[ReaderOptions]) -> Reader:
        """Return a new started reader.

        Args:
            topic: topic for iteration over the reader; None if only the methods are used.
            **options: fields of `ReaderSettings`, such as ``start="last"``.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started.
        """
        from gantrymq.client.reading.reader import Reader

        return self._start_part(Reader(topic, **options))

    @property
    def admin(self) -> Admin:
        """The admin client of this connection. Raises ClientError if the client is not started."""
        if self._admin is None or not self._admin.is_started:
            from gantrymq.client.admin import Admin

            self._admin = self._start_part(Admin())
        return self._admin

    def _get_or_create(self, kind: type[Made], group: str, given: dict[str, Any], make: Callable[[], Made]) -> Made:
        """Return the started producer of *group*, created by *make* if there is none. *given* are its options."""
        self._started()
        check_group(group)
        found, options = self._producers.get(group, (None, {}))
        if found is None or not found._usable:
            made = self._start_part(make())
            self._producers = {name: each for name, each in self._producers.items() if each[0].is_started}
            self._producers[group] = made, given
            return made
        if type(found) is not kind or (given and given != options):
            raise ClientError(
                f"this Client has a producer of group {group} that was created with other options or as another class; "
                "keep it in a variable, close it, or choose another group"
            )
        return found

    def _instrumented(self, options: Options) -> Options:
        """Return *options* with the hooks and the trace of this client added."""
        own: dict[str, Any] = dict(options)
        own["hooks"] = (*self._hooks, *own.get("hooks", ()))
        if own.get("trace") is None:
            own["trace"] = self._trace
        return cast(Options, own)

    def _start_part(self, part: AnyPart) -> AnyPart:
        instance = self._started()
        self._check_not_closing()
        part.join(instance)
        self._parts = [each for each in self._parts if each.is_started]
        self._parts.append(part)
        return part

    def closed_by(self, task: asyncio.Task[Any] | None) -> None:
        """Note the closing task for this client and everything it created."""
        super().closed_by(task)
        for part in self._parts:
            part.closed_by(task)

    async def _finish_within(self, clock: Clock, seconds: float) -> None:
        """Close everything the client created, within *seconds*."""
        parts, self._parts, self._admin = self._parts, [], None
        self._producers.clear()
        await asyncio.gather(*(part.close(seconds) for part in parts))
