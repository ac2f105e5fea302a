"""Members of consumer groups that pass messages to handlers.

A message is acknowledged according to the `AckPolicy`, regardless of the order in which handlers finish:

    ACK_FIRST        before the handler is called
    ACK              after it, even if it raised
    NACK_ON_ERROR    after it; redelivered if it raised (the default)
    REJECT_ON_ERROR  after it; a dead letter if it raised
    MANUAL           by the handler: message.ack(), nack(), reject()
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from faststream._internal.endpoint.subscriber.mixins import TasksMixin
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from gantrymq.client import ClientError, Consumer, ReceivedMessage
from gantrymq.plugin.client import REPLY_TO_CLIENT
from gantrymq_faststream.arguments import refuse_generator, refuse_lists_of_messages, refuse_lists_of_messages_in
from gantrymq_faststream.configs import GantryBrokerConfig, SubscriberConfig
from gantrymq_faststream.message import NO_CONSUMER, GantryMessage
from gantrymq_faststream.options import REPLY_TO
from gantrymq_faststream.outcomes import HandlerOutcome
from gantrymq_faststream.parser import GantryParser
from gantrymq_faststream.publisher import ReplyPublisher

if TYPE_CHECKING:
    from faststream._internal.endpoint.publisher import PublisherProto
    from faststream._internal.endpoint.subscriber import SubscriberSpecification
    from faststream._internal.endpoint.subscriber.call_item import CallsCollection
    from faststream._internal.types import BrokerMiddleware
    from faststream.message import StreamMessage


class GantrySubscriber(TasksMixin):
    """A subscriber for single messages, up to ``max_workers`` of them at a time.

    Attributes:
        group: its consumer group.
        consumer: the client's consumer, between `start` and `stop`.
        expression, expression_type: the filter of messages.
    """

    _outer_config: GantryBrokerConfig

    def __init__(
        self,
        config: SubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Any],
    ) -> None:
        self._parsing = GantryParser()
        self._choose_parser(config)
        super().__init__(config, specification, calls)
        self._config = config
        self.group = config.group
        self.expression = config.expression
        self.expression_type = config.expression_type
        self.consumer: Consumer | None = None
        self._stream: AsyncIterator[Any] | None = None

    def _choose_parser(self, config: SubscriberConfig) -> None:
        config.parser = self._parsing.parse_message
        config.decoder = self._parsing.decode_message

    @property
    def topics(self) -> list[str]:
        """The topics with the prefixes of routers."""
        return [f"{self._outer_config.prefix}{topic}" for topic in self._config.topics]

    async def start(self) -> None:
        """Join the group, and start calling the handlers, if there are any."""
        await super().start()
        if self.consumer is None:
            self.consumer = self._parsing.consumer = self._outer_config.client.consumer(**self.consumer_options())
        self._post_start()
        if self.calls:
            for _ in range(self._config.max_workers):
                self._begin()

    def consumer_options(self) -> dict[str, Any]:
        """Return the arguments of `Client.consumer` for it."""
        return {
            "group": self.group,
            "topics": dict.fromkeys(self.topics, self.expression),
            "expression_type": self.expression_type,
            **self._config.settings,
            "auto_ack": False,
        }

    def __call__(self, func: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Decorate a handler; *options* are FastStream's: filter, parser, decoder, dependencies.

        Raises:
            SetupError: an argument is a list of messages, which is not supported, or the handler is a generator
                function.
        """
        if func is None:
            return lambda decorated: self(decorated, **options)
        refuse_generator(func, self.group)
        refuse_lists_of_messages_in(func, self.group)
        return super().__call__(func, **options)

    def _build_fastdepends_model(self) -> None:
        super()._build_fastdepends_model()
        for call in self.calls:
            for option in () if call.dependant is None else call.dependant.params:
                refuse_lists_of_messages(option.field_type, option.field_name, self.group)

    def log(self, level: int, text: str) -> None:
        """Write one line to the broker's log."""
        self._log(level, text, extra=self.get_log_context(None))

    async def stop(self) -> None:
        """Stop receiving, finish messages in flight within ``graceful_timeout``, commit offsets, leave the group."""
        current = asyncio.current_task()
        self.tasks = [task for task in self.tasks if task is not current]  # a handler may stop its own subscriber
        self._stream = None
        if self.consumer is not None:
            with contextlib.suppress(ClientError):  # closed by the application
                self.consumer.pause()
        await super().stop()
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            await consumer.close(self._outer_config.graceful_timeout)
            self._parsing.consumer = NO_CONSUMER

    async def get_one(self, *, timeout: float = 5.0) -> GantryMessage | None:
        """Return the next message, None after *timeout* seconds without one; for a subscriber without handlers.

        Acknowledge it with its `ack`; under ACK_FIRST it is already acknowledged.
        """
        consumer = self._without_handlers()
        if self._stream is None:
            self._stream = self._messages(consumer)
        try:
            async with asyncio.timeout(timeout):
                raw = await anext(self._stream)
        except (TimeoutError, StopAsyncIteration):
            return None
        return await self._processed(raw)

    async def __aiter__(self) -> AsyncIterator[GantryMessage]:
        """Iterate over messages without end; otherwise as `get_one`."""
        async for raw in self._messages(self._without_handlers()):
            yield await self._processed(raw)

    @property
    def _broker_middlewares(self) -> Sequence[BrokerMiddleware[Any]]:
        """The middlewares between two `HandlerOutcome`s, so that errors of the application's are failures, too."""
        return (HandlerOutcome, *super()._broker_middlewares, HandlerOutcome)

    def _messages(self, consumer: Consumer) -> AsyncIterator[Any]:
        return aiter(consumer)

    def _without_handlers(self) -> Consumer:
        if self.calls:
            raise SetupError(f"the subscriber of {self.group} has handlers, which receive its messages")
        if self.consumer is None:
            raise SetupError(f"the subscriber of {self.group} is not started")
        return self.consumer

    async def _processed(self, raw: Any) -> GantryMessage:
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        message = cast(
            "GantryMessage",
            await process_msg(
                msg=raw,
                middlewares=(each(raw, context=context) for each in self._broker_middlewares),
                parser=parser,
                decoder=decoder,
            ),
        )
        if self.ack_policy is AckPolicy.ACK_FIRST:
            await message.ack()
        return message

    def _begin(self) -> None:
        """Start a task that receives messages.

        FastStream's `add_task` would log a line at the end of each, and restart a refused one again and again.
        """
        task = asyncio.create_task(self._consume())
        task.add_done_callback(self._ended)
        self.tasks.append(task)

    async def _consume(self) -> None:
        consumer, task = self.consumer, asyncio.current_task()
        if consumer is None or task is None:
            return
        async for raw in self._messages(consumer):
            with consumer.processing(*(raw if isinstance(raw, list) else (raw,))):
                await self.consume(raw)
            if not self.running:
                break
            if task.cancelling():
                self.tasks.remove(task)
                self.log(logging.WARNING, f"a handler of {self.group} cancelled its own task; a new task replaces it")
                self._begin()
                break

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task not in self.tasks:  # the subscriber was stopped, or the task was replaced
            return
        self.tasks.remove(task)
        if not self.running:
            return
        if task.cancelled():
            self.log(
                logging.ERROR, f"a task that receives messages of {self.group} was cancelled and stopped receiving"
            )
        elif error is None:
            self.log(
                logging.ERROR, f"the consumer of {self.group} was closed; its subscriber stopped receiving messages"
            )
        elif isinstance(error, ClientError):
            self.log(logging.ERROR, f"the subscriber of {self.group} stopped receiving messages: {error}")
        else:
            self.log(logging.ERROR, f"a task of {self.group} failed: {error!r}; a new task replaces it")
            self._begin()

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Iterable[PublisherProto[Any]]:
        raw = message.raw_message
        question: ReceivedMessage = raw[0] if isinstance(raw, list) else raw
        asked = REPLY_TO not in message.headers and REPLY_TO_CLIENT in question.properties
        return (ReplyPublisher(self._outer_config.producer, message.reply_to, question if asked else None),)

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        """Return topic, group and id for log lines."""
        topic = ",".join(self.topics)
        if message is not None:
            raw = message.raw_message
            topic = (raw[0] if isinstance(raw, list) else raw).topic
        return {"topic": topic, "group": self.group, "message_id": getattr(message, "message_id", "")}


class BatchSubscriber(GantrySubscriber):
    """A subscriber for lists of messages, each of one queue: all available ones, up to ``max_records``."""

    def __init__(
        self,
        config: SubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Any],
        max_records: int,
    ) -> None:
        super().__init__(config, specification, calls)
        self.max_records = max_records

    def _choose_parser(self, config: SubscriberConfig) -> None:
        config.parser = self._parsing.parse_batch
        config.decoder = self._parsing.decode_batch

    def _messages(self, consumer: Consumer) -> AsyncIterator[Any]:
        return consumer.batches(self.max_records)
