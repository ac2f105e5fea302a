"""Publishers: topics for handlers' results or for direct publishing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.endpoint.publisher import PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream.response.publish_type import PublishType

from gantrymq.client import ReceivedMessage, SendResult
from gantrymq_faststream.configs import GantryBrokerConfig, PublisherConfig
from gantrymq_faststream.message import GantryMessage
from gantrymq_faststream.options import MessageOptions
from gantrymq_faststream.response import GantryPublishCommand

if TYPE_CHECKING:
    from faststream._internal.endpoint.publisher import PublisherSpecification
    from faststream._internal.producer import ProducerProto
    from faststream._internal.types import PublisherMiddleware
    from faststream.response import PublishCommand


class PublisherOfTopic(PublisherUsecase):
    """A publisher created by ``broker.publisher(topic)``.

    Attributes:
        batch: whether a list is published as several messages.
    """

    _outer_config: GantryBrokerConfig

    def __init__(self, config: PublisherConfig, specification: PublisherSpecification[Any, Any]) -> None:
        super().__init__(config, specification)
        self._config = config
        self.batch = config.batch

    @property
    def topic(self) -> str:
        """The topic with the prefixes of routers."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    async def publish(
        self,
        message: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        timeout_s: float | None = None,
        **options: Unpack[MessageOptions],
    ) -> SendResult | tuple[SendResult, ...]:
        """Publish one message; arguments as for `GantryBroker.publish`, with the publisher's defaults.

        A publisher with ``batch=True`` takes a list as *message*, and returns a result for each element.
        """
        cmd = GantryPublishCommand(
            message,
            topic=topic or self.topic,
            headers={**self._config.headers, **(headers or {})},
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to or self._config.reply_to,
            timeout_s=self._config.timeout_s if timeout_s is None else timeout_s,
            options=cast("MessageOptions", {**self._config.options, **options}),
            _publish_type=PublishType.PUBLISH,
        )
        sent = await self._sent(GantryPublishCommand.from_cmd(cmd, batch=self.batch), ())
        return cast("SendResult | tuple[SendResult, ...]", sent)

    async def request(
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[MessageOptions],
    ) -> GantryMessage:
        """Send a request and wait for the answer; as `GantryBroker.request`."""
        cmd = GantryPublishCommand(
            message,
            topic=topic or self.topic,
            headers={**self._config.headers, **(headers or {})},
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout_s=self._config.timeout_s if timeout_s is None else timeout_s,
            options=cast("MessageOptions", {**self._config.options, **options}),
            _publish_type=PublishType.REQUEST,
        )
        return cast("GantryMessage", await self._basic_request(cmd, producer=self._outer_config.producer))

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> None:
        """Publish the result of a handler; its own options take precedence over the publisher's."""
        mine = GantryPublishCommand.from_cmd(cmd, batch=self.batch)
        mine.destination = self.topic
        mine.add_headers(self._config.headers, override=False)
        mine.reply_to = mine.reply_to or self._config.reply_to
        mine.timeout_s = self._config.timeout_s
        mine.options = cast("MessageOptions", {**self._config.options, **mine.options})
        await self._sent(mine, _extra_middlewares)

    async def _sent(self, cmd: GantryPublishCommand, middlewares: Iterable[PublisherMiddleware]) -> Any:
        send = self._basic_publish_batch if self.batch else self._basic_publish
        return await send(cmd, producer=self._outer_config.producer, _extra_middlewares=middlewares)


class ReplyPublisher(FakePublisher):
    """Answers one message: a RocketMQ request to its requester, any other message to the topic of its ``reply_to``."""

    def __init__(self, producer: ProducerProto[Any], topic: str, question: ReceivedMessage | None) -> None:
        super().__init__(producer=producer)
        self._topic = topic
        self._question = question

    def patch_command(self, cmd: PublishCommand) -> GantryPublishCommand:
        """Return *cmd* with the answer's destination."""
        mine = GantryPublishCommand.from_cmd(super().patch_command(cmd))
        mine.destination = self._topic
        mine.question = self._question
        return mine
