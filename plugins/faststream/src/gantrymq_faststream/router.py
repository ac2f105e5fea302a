"""Routers: subscribers and publishers declared separately and included in a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream.middlewares import AckPolicy

from gantrymq_faststream.configs import GantryBrokerConfig
from gantrymq_faststream.registrator import GantryRegistrator

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable


class GantryPublisher(ArgsContainer):
    """Arguments of ``publisher`` for a `GantryRoute`."""

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class GantryRoute(SubscriberRoute):
    """A handler with the arguments of its ``subscriber``, for the list of a `GantryRouter`."""

    def __init__(
        self,
        call: Callable[..., Any] | Callable[..., Awaitable[Any]],
        *topics: str,
        publishers: Iterable[GantryPublisher] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, *topics, publishers=publishers, **options)


class GantryRouter(GantryRegistrator, BrokerRouter[Any, GantryBrokerConfig]):
    """A router, included in a broker or in another router."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[GantryRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[GantryRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        ack_policy: AckPolicy = EMPTY,
        include_in_schema: bool | None = None,
    ) -> None:
        """Arguments are those of the broker.

        Args:
            prefix: prepended to all topics declared here.
            handlers: functions with their topics, in place of decorators.
            dependencies, middlewares, parser, decoder, codec, ack_policy: of everything declared here.
            routers: to include.
            include_in_schema: whether the AsyncAPI document includes it.
        """
        super().__init__(
            handlers=handlers,
            config=GantryBrokerConfig(
                prefix=prefix,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                ack_policy=ack_policy,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
