"""The broker: one client for all subscribers and publishers.

broker = GantryBroker("127.0.0.1:9876")
async with broker:
    await broker.publish({"order": 7}, "Orders", tags="new")
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream.exceptions import SetupError
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.specification.schema import BrokerSpec

from gantrymq.client import CallTimeout, Client, Producer, ProducerSettings, ReceivedMessage, SendResult
from gantrymq_faststream.configs import GantryBrokerConfig
from gantrymq_faststream.logging import make_gantry_logger_state
from gantrymq_faststream.message import GantryMessage
from gantrymq_faststream.options import MessageOptions
from gantrymq_faststream.producer import GantryProducer
from gantrymq_faststream.registrator import GantryRegistrator
from gantrymq_faststream.response import TIMEOUT_S, GantryPublishCommand
from gantrymq_faststream.security import connect_options
from gantrymq_faststream.subscriber import GantrySubscriber

if TYPE_CHECKING:
    from fast_depends import Provider
    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.configs import UnderlyingDriverAnnotations
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
    from faststream.security import BaseSecurity
    from faststream.specification.schema.extra import Tag, TagDict


_DEFAULT_NAMESRV = "127.0.0.1:9876"
_GRACEFUL_S = 15.0
_PING_S = 10.0


class GantryBroker(
    GantryRegistrator, BrokerUsecase[ReceivedMessage | list[ReceivedMessage], Client, GantryBrokerConfig]
):
    """A FastStream broker for RocketMQ's protocol."""

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        producer_group: str = "faststream",
        producer_options: Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        security: BaseSecurity | None = None,
        graceful_timeout: float | None = _GRACEFUL_S,
        ack_policy: AckPolicy = EMPTY,
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[GantryRegistrator] = (),
        id_generator: IdGenerator = gen_cor_id,
        specification_url: str | Iterable[str] | None = None,
        protocol: str = "rocketmq",
        protocol_version: str = "4.9",
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: SerializerProto | None = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
        underlying_driver_annotations: UnderlyingDriverAnnotations | None = None,
    ) -> None:
        """Nothing is opened before the broker is started.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            producer_group: of all published messages.
            producer_options: of `gantrymq.client.Client.producer`, such as ``{"compression": "zstd"}``.
            client_options: of `gantrymq.client.Client`, such as ``{"instance_name": "a"}``.
            security: ``BaseSecurity`` for TLS.
            graceful_timeout: seconds that handlers have to finish when the broker is stopped; None or 0 for none.
            ack_policy: default for subscribers; NACK_ON_ERROR if not given.
            parser, decoder, codec: convert messages to FastStream's, bodies to values, and values to bodies.
            dependencies: as `faststream.Depends`, for each call of a handler.
            middlewares: around receiving and publishing.
            routers: to include.
            id_generator: generates correlation ids.
            specification_url, protocol, protocol_version, description, tags: for the AsyncAPI document.
            logger, log_level: the logger; None to log nothing.
            apply_types: whether bodies are converted to the types of the handlers' arguments.
            serializer, provider, context: of FastDepends and FastStream.
            underlying_driver_annotations: classes that handlers cannot use, with their replacements.

        Raises:
            SetupError: RocketMQ does not support this kind of *security*.
        """
        self._namesrv = namesrv
        self._producer_group = producer_group
        self._producer_options = dict(producer_options or {})
        self._client_options = {**connect_options(security), **(client_options or {})}
        if specification_url is None:
            addresses = namesrv or os.environ.get("NAMESRV_ADDR") or _DEFAULT_NAMESRV
            specification_url = [f"rocketmq://{address.strip()}" for address in addresses.split(";") if address.strip()]
        super().__init__(
            routers=routers,
            config=GantryBrokerConfig(
                producer=GantryProducer(parser, decoder),
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_gantry_logger_state(logger=logger, log_level=log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
                underlying_driver_annotations=underlying_driver_annotations or {},
            ),
            specification=BrokerSpec(
                url=[specification_url] if isinstance(specification_url, str) else list(specification_url),
                protocol=protocol,
                protocol_version=protocol_version,
                description=description,
                tags=tags,
                security=security,
            ),
        )

    async def _connect(self) -> Client:
        client = Client(self._namesrv, **self._client_options)
        await client.start()
        config = self.config.broker_config
        config.producer.connect(
            client.producer(self._producer_group, **self._producer_options),
            config.fd_config._serializer,
            config.broker_codec,
        )
        config.connection = client
        return client

    async def start(self) -> None:
        """Connect, and start subscribers and publishers.

        Raises:
            SetupError: two subscribers have one group.
            ClientError: an option or name is invalid.
        """
        self.check_groups()
        await self.connect()
        await super().start()

    def check_groups(self) -> None:
        """Raise SetupError if several subscribers have the same group."""
        groups = Counter(cast("GantrySubscriber", each).group for each in self.subscribers)
        if twice := sorted(group for group, count in groups.items() if count > 1):
            raise SetupError(
                f"several subscribers have the group {', '.join(twice)}; members of a group have the same topics and "
                "expressions: give each subscriber its own group, or one subscriber several topics"
            )

    def producer_settings(self) -> ProducerSettings:
        """Return the settings of its producer, for tests in memory.

        Raises:
            ClientError: an option of the broker, its client or its producer is invalid.
        """
        Client(self._namesrv, **self._client_options)
        return Producer(self._producer_group, **self._producer_options).settings

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Let handlers finish, commit the offsets of subscribers, and close the connections."""
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            config = self.config.broker_config
            client, config.connection, self._connection = config.connection, None, None
            config.producer.disconnect()
            if client is not None:
                await client.close(config.graceful_timeout)

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        timeout_s: float = TIMEOUT_S,
        **options: Unpack[MessageOptions],
    ) -> SendResult:
        """Publish one message.

        Args:
            message: bytes, text, or any value that pydantic (or the codec) can write as JSON.
            topic: the target topic.
            headers: properties of the message; values are converted to text.
            correlation_id: None for a new one.
            reply_to: topic for an answer.
            timeout_s: seconds for all attempts.
            **options: tags, keys, delays and so on, see `MessageOptions`.

        Returns:
            The position where it is stored.

        Raises:
            ClientError: it was not sent; as `gantrymq.client.Producer.send`.
            IncorrectState: the broker is not connected.
        """
        cmd = self._command((message,), topic, headers, correlation_id, reply_to, timeout_s, options)
        return cast("SendResult", await self._basic_publish(cmd, producer=self._producer))

    async def publish_batch(  # type: ignore[override]  # of this broker
        self,
        *messages: Any,
        topic: str,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        timeout_s: float = TIMEOUT_S,
        **options: Unpack[MessageOptions],
    ) -> tuple[SendResult, ...]:
        """Publish several messages with as few requests as possible; otherwise as `publish`.

        Returns:
            A result for each message.
        """
        if not messages:
            return ()
        cmd = self._command(messages, topic, headers, correlation_id, reply_to, timeout_s, options)
        return cast("tuple[SendResult, ...]", await self._basic_publish_batch(cmd, producer=self._producer))

    async def request(  # type: ignore[override]  # of this broker
        self,
        message: Any,
        topic: str,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout_s: float = TIMEOUT_S,
        **options: Unpack[MessageOptions],
    ) -> GantryMessage:
        """Publish a request and wait for the result of a subscriber's handler; arguments as for `publish`.

        Returns:
            The answer; ``await answer.decode()`` is its body.

        Raises:
            CallTimeout: no answer within *timeout_s* seconds.
            as `publish`: everything else.
        """
        cmd = self._command((message,), topic, headers, correlation_id, "", timeout_s, options, PublishType.REQUEST)
        return cast("GantryMessage", await self._basic_request(cmd, producer=self._producer))

    async def ping(self, timeout: float | None = _PING_S) -> bool:
        """Return whether a name server answers within *timeout* seconds; False if the broker is not connected."""
        if self._connection is None:
            return False
        try:
            await self._connection.wait_ready(timeout_s=_PING_S if timeout is None else timeout)
        except CallTimeout:
            return False
        return True

    def _command(
        self,
        messages: Sequence[Any],
        topic: str,
        headers: dict[str, Any] | None,
        correlation_id: str | None,
        reply_to: str,
        timeout_s: float,
        options: MessageOptions,
        kind: PublishType = PublishType.PUBLISH,
    ) -> GantryPublishCommand:
        return GantryPublishCommand(
            *messages,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            timeout_s=timeout_s,
            options=options,
            _publish_type=kind,
        )


RocketBroker = GantryBroker
