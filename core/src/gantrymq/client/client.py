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
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from gantrymq.client.calls.connection_config import CONNECT_OPTIONS, ConnectOptions
from gantrymq.client.connection.base import BaseClient
from gantrymq.client.tracing.instrumentation import Instrumentation
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.model.names import check_group
from gantrymq.world import Clock

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin
    from gantrymq.client.group.consumer import Consumer, OwnConsumerOptions
    from gantrymq.client.group.lite_pull import LitePullConsumer, OwnLitePullOptions
    from gantrymq.client.pop.consumer import PopConsumer, PopOptions
    from gantrymq.client.producing.producer import OwnProducerOptions, Producer
    from gantrymq.client.producing.transactions import Check, TransactionProducer
    from gantrymq.client.reading.reader import Reader, ReaderOptions
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

__all__ = ["Client"]

Part = TypeVar("Part", bound=BaseClient)
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
        super().__init__(namesrv, **connect)
        instrumentation = Instrumentation(hooks, trace)
        self._hooks = instrumentation.hooks
        self._trace: bool | MessageTrace = instrumentation.trace or False
        self._parts: list[BaseClient] = []
        self._producers: dict[str, tuple[Producer, dict[str, Any]]] = {}  # by group, and the options given
        self._admin: Admin | None = None

    def producer(self, group: str, **options: Unpack[OwnProducerOptions]) -> Producer:
        """Return the started producer of *group*.

        The first call creates it; later calls return the same one until it is closed, so ``await
        client.producer("shop").send(...)`` may be used in a loop.

        Args:
            group: producer group, named after the application.
            options: see `gantrymq.client.Producer`; later calls pass the same options or none.

        Raises:
            InvalidParameter, OptionUnusable: a name or option is not legal.
            ClientError: the client is not started, or has a producer of that group with other options.
        """
        from gantrymq.client.producing.producer import Producer

        return self._get_or_create(
            Producer, group, dict(options), lambda: Producer(group, **self._instrumented(options))
        )

    def transaction_producer(
        self, group: str, check: Check, **options: Unpack[OwnProducerOptions]
    ) -> TransactionProducer:
        """Return the started transaction producer of *group*; later calls return the same one, as with `producer`.

        Later calls pass the same *check*. Arguments as for `TransactionProducer`. Raises as `producer`.
        """
        from gantrymq.client.producing.transactions import TransactionProducer

        given = {"check": check, **options}
        return self._get_or_create(
            TransactionProducer, group, given, lambda: TransactionProducer(group, check, **self._instrumented(options))
        )

    def consumer(self, group: str, topics: str | Mapping[str, str], **options: Unpack[OwnConsumerOptions]) -> Consumer:
        """Return a started member of the consumer group *group*; arguments as for `gantrymq.client.Consumer`.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started, or has a consumer of that group.
        """
        from gantrymq.client.group.consumer import Consumer

        return self._start_part(Consumer(group, topics, **self._instrumented(options)))

    def lite_pull(
        self, group: str, topics: str | Mapping[str, str] | None = None, **options: Unpack[OwnLitePullOptions]
    ) -> LitePullConsumer:
        """Return a started lite pull consumer of *group*; arguments as for `gantrymq.client.LitePullConsumer`.

        Raises as `consumer`.
        """
        from gantrymq.client.group.lite_pull import LitePullConsumer

        return self._start_part(LitePullConsumer(group, topics, **self._instrumented(options)))

    def pop_consumer(self, group: str, topic: str, **options: Unpack[PopOptions]) -> PopConsumer:
        """Return a started pop consumer of *group*; *options* as for `gantrymq.client.PopConsumer`.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started.
        """
        from gantrymq.client.pop.consumer import PopConsumer

        return self._start_part(PopConsumer(group, topic, **self._instrumented(options)))

    def reader(self, topic: str | None = None, **options: Unpack[ReaderOptions]) -> Reader:
        """Return a new started reader of *topic*; *options* as for `gantrymq.client.Reader`.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started.
        """
        from gantrymq.client.reading.reader import Reader

        return self._start_part(Reader(topic, **self._checked_options(options)))

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
        own: dict[str, Any] = dict(self._checked_options(options))
        own["hooks"] = (*self._hooks, *own.get("hooks", ()))
        if own.get("trace") is None:
            own["trace"] = self._trace
        return cast(Options, own)

    def _checked_options(self, options: Options) -> Options:
        """Return *options*. Raises InvalidParameter if one of them is a connection option."""
        for name in CONNECT_OPTIONS:
            if name in options:
                raise InvalidParameter(f"{name} is an option of the Client: Client(..., {name}=...)")
        return options

    def _start_part(self, part: Part) -> Part:
        part.start_in(self)
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
