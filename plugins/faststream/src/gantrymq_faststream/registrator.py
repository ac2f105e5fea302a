"""Declaration of subscribers and publishers, for brokers and routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from gantrymq.plugin.client import ConsumerOptions
from gantrymq_faststream.configs import (
    GantryBrokerConfig,
    PublisherConfig,
    PublisherSpecConfig,
    SubscriberConfig,
    SubscriberSpecConfig,
)
from gantrymq_faststream.options import MessageOptions
from gantrymq_faststream.publisher import PublisherOfTopic
from gantrymq_faststream.response import TIMEOUT_S
from gantrymq_faststream.specification import GantryPublisherSpecification, GantrySubscriberSpecification
from gantrymq_faststream.subscriber import BatchSubscriber, GantrySubscriber

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable


_ORDERLY_TRIES = 16


class GantryRegistrator(Registrator[Any, GantryBrokerConfig]):
    """Base class of brokers and routers."""

    def subscriber(  # type: ignore[override]  # of this broker
        self,
        *topics: str,
        group: str,
        batch: bool = False,
        max_records: int = 32,
        max_workers: int = 1,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        **settings: Unpack[ConsumerOptions],
    ) -> GantrySubscriber:
        """Return a subscriber, a decorator for handlers.

        Args:
            *topics: one or more.
            group: consumer group; its members, in all processes, have the same topics and expressions.
            batch: whether handlers receive lists.
            max_records: maximum length of such a list, 1 to 1024.
            max_workers: number of messages (or lists) handled concurrently.
            ack_policy: see `gantrymq_faststream.subscriber`; by default the broker's, else NACK_ON_ERROR.
            no_reply: whether requests are not answered.
            dependencies: as `faststream.Depends`, for each call.
            parser, decoder, codec: in place of the broker's.
            persistent: whether the broker holds a reference to it.
            title, description, include_in_schema: for the AsyncAPI document.
            **settings: options of `gantrymq.client.Client.consumer`: ``expression="TagA || TagB"``, or an SQL92
                expression over headers with ``expression_type="SQL92"``, ``consume_from="first"``, ``orderly=True``,
                ``broadcasting=True``, ``max_tries=3`` and so on. An orderly message becomes a dead letter after 16
                tries unless ``max_tries`` is set.

        Raises:
            SetupError: there is no topic or no group, or a number is out of bounds.
        """
        if not topics or not all(topics):
            raise SetupError("a subscriber needs a topic: broker.subscriber('Orders', group='billing')")
        if not group:
            raise SetupError(f"the subscriber of {', '.join(topics)} needs a consumer group: group='billing'")
        if max_workers < 1:
            raise SetupError(f"max_workers of {group} is {max_workers}; expected 1 and more")
        if not 1 <= max_records <= 1024:
            raise SetupError(f"max_records of {group} is {max_records}; expected 1 to 1024")
        if settings.get("orderly"):
            settings.setdefault("max_tries", _ORDERLY_TRIES)
        outer = cast("GantryBrokerConfig", self.config)
        config = SubscriberConfig(
            topics=topics,
            group=group,
            expression=settings.pop("expression", "*"),
            expression_type=settings.pop("expression_type", "TAG"),
            max_workers=max_workers,
            settings=dict(settings),
            no_reply=no_reply,
            _outer_config=outer,
            _ack_policy=ack_policy,
        )
        calls = CallsCollection[Any]()
        specification = GantrySubscriberSpecification(
            outer,
            SubscriberSpecConfig(
                topics=topics, title_=title, description_=description, include_in_schema=include_in_schema
            ),
            calls,
        )
        subscriber = (
            BatchSubscriber(config, specification, calls, max_records)
            if batch
            else GantrySubscriber(config, specification, calls)
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser,
            decoder_=decoder or self._decoder,
            codec_=codec,
            dependencies_=dependencies,
        )

    def publisher(  # type: ignore[override]  # of this broker
        self,
        topic: str,
        *,
        batch: bool = False,
        headers: dict[str, Any] | None = None,
        reply_to: str = "",
        timeout_s: float = TIMEOUT_S,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
        **options: Unpack[MessageOptions],
    ) -> PublisherOfTopic:
        """Return a publisher, a decorator for handlers that can also be called.

        Args:
            topic: the target topic.
            batch: whether a list becomes several messages, sent as one batch.
            headers: of each message, in addition to its own.
            reply_to: topic for answers.
            timeout_s: seconds for each send.
            persistent: whether the broker holds a reference to it.
            title, description, schema, include_in_schema: for the AsyncAPI document.
            **options: see `MessageOptions`; a message's own options take precedence.
        """
        if not topic:
            raise SetupError("a publisher needs a topic: broker.publisher('Invoices')")
        outer = cast("GantryBrokerConfig", self.config)
        config = PublisherConfig(
            topic=topic,
            batch=batch,
            headers=headers or {},
            reply_to=reply_to,
            timeout_s=timeout_s,
            options=options,
            _outer_config=outer,
        )
        specification = GantryPublisherSpecification(
            outer,
            PublisherSpecConfig(
                topic=topic,
                schema_=schema,
                title_=title,
                description_=description,
                include_in_schema=include_in_schema,
            ),
        )
        publisher = PublisherOfTopic(config, specification)
        super().publisher(publisher, persistent=persistent)
        return publisher

    def include_router(  # type: ignore[override]  # of this broker
        self,
        router: GantryRegistrator,
        *,
        prefix: str = "",
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        include_in_schema: bool | None = None,
    ) -> None:
        """Include the subscribers and publishers of *router*; *prefix* is prepended to their topics.

        Raises:
            SetupError: the router belongs to another kind of broker.
        """
        if not isinstance(router, GantryRegistrator):
            raise SetupError(f"{type(router).__name__} is not a router for this broker; expected a GantryRouter")
        super().include_router(
            router,
            prefix=prefix,
            dependencies=dependencies,
            middlewares=middlewares,
            include_in_schema=include_in_schema,
        )
