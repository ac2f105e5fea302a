"""The broker in memory: published messages are passed at once to the handlers that would receive them.

    async with TestGantryBroker(broker):
        await broker.publish({"order": 7}, "Orders")
        bill.mock.assert_called_once_with({"order": 7})

A group receives a message once, a broadcasting subscriber always. Messages that a broker or the client would reject are
rejected here as well. Tags are matched as in a broker; SQL92 expressions are if gantrymq-filter-sql92 is installed,
otherwise a warning says that they match everything. Delayed messages are handled at once. An exception of a handler is
raised by the call that published.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast, overload
from unittest.mock import AsyncMock

import anyio
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from gantrymq.client import (
    BrokerRefused,
    CallTimeout,
    Consumer,
    Message,
    MessageIllegal,
    MessageQueue,
    PluginAbsent,
    ReceivedMessage,
    SendResult,
    SendStatus,
    Subscription,
)
from gantrymq.plugin import properties as names
from gantrymq.plugin.client import RequestMalformed, check_batch, check_message, in_batches
from gantrymq.plugin.real_world import RealClock
from gantrymq_faststream.broker import GantryBroker
from gantrymq_faststream.options import make_message, queue_of
from gantrymq_faststream.parser import GantryParser
from gantrymq_faststream.producer import GantryProducer
from gantrymq_faststream.publisher import PublisherOfTopic
from gantrymq_faststream.response import GantryPublishCommand
from gantrymq_faststream.subscriber import BatchSubscriber, GantrySubscriber

_IN_MEMORY: Final = "in-memory"
_MAX_LEVEL: Final = 2**31 - 1  # the highest delay level that a broker parses
_ADDED_BYTES: Final = len(
    "UNIQ_KEY\x01%s\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02" % ("0" * 32)
)  # size of the properties that the client and a broker with default settings add
_MAX_DELAY_MS: Final = 3 * 24 * 3600 * 1000  # default of brokers (timerMaxDelaySec)


class TestGantryBroker(TestBroker[GantryBroker, EnterType], broker=GantryBroker):
    """A context manager for tests; ``with_real=True`` uses the real broker, and still counts calls."""

    @overload
    def __init__(
        self: TestGantryBroker[GantryBroker],
        broker: GantryBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestGantryBroker[tuple[GantryBroker, ...]],
        *brokers: GantryBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(self, *brokers: GantryBroker, with_real: bool = False, connect_only: bool | None = None) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    def create_publisher_fake_subscriber(
        self, broker: GantryBroker, publisher: PublisherOfTopic
    ) -> tuple[GantrySubscriber, bool]:
        """Return a subscriber of the publisher's topic, and whether it is the application's."""
        for found in _subscribers(self.brokers):
            if publisher.topic in found.topics:
                return found, True
        group = f"test_{publisher.topic}"
        return broker.subscriber(publisher.topic, group=group, batch=publisher.batch, persistent=False), False

    def _fake_start(self, broker: GantryBroker, *args: Any, **kwargs: Any) -> None:
        broker.check_groups()
        for subscriber in _subscribers((broker,)):
            Consumer(**subscriber.consumer_options())
            if not self.with_real:
                _subscription(subscriber, subscriber.topics[0])
        super()._fake_start(broker, *args, **kwargs)

    @contextmanager
    def _patch_producer(self, broker: GantryBroker) -> Generator[None, None, None]:
        with change_producer(broker.config.broker_config, _InMemoryProducer(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: GantryBroker, *args: Any, **kwargs: Any) -> Any:
        return AsyncMock()


class NoAnswer(CallTimeout, SubscriberNotFound):
    """Raised when no subscriber answers a request: a `CallTimeout`, as with a broker, and FastStream's own error."""


class _InMemoryProducer(GantryProducer):
    """Passes messages to handlers instead of sending them."""

    def __init__(self, broker: GantryBroker, brokers: Sequence[GantryBroker]) -> None:
        config = broker.config
        super().__init__(config.broker_parser, config.broker_decoder)
        self._brokers = brokers
        self._max_bytes = broker.producer_settings().max_message_bytes
        self.serializer = config.fd_config._serializer
        self.codec = config.broker_codec or self.codec
        default = GantryParser()
        self._parser = ParserComposition(config.broker_parser, default.parse_message)
        self._decoder = ParserComposition(config.broker_decoder, default.decode_message)
        self._ids = (f"{number:032X}" for number in itertools.count(1))
        self._offsets = itertools.count()

    async def publish(self, cmd: GantryPublishCommand) -> SendResult:
        """Pass the message to its handlers."""
        received = self._received(await self.message(cmd, cmd.body))
        for subscriber in self._for(received):
            await subscriber.process_message([received] if isinstance(subscriber, BatchSubscriber) else received)
        return _stored(received)

    async def message(self, cmd: GantryPublishCommand, body: Any) -> Message:
        """Return the client's message for *body*. Raises ClientError if it could not be sent."""
        message = await super().message(cmd, body)
        check_message(message, self._max_bytes)
        queue_of(cmd.options)
        _check_properties(message)
        _check_delay(message)
        return message

    async def publish_batch(self, cmd: GantryPublishCommand) -> tuple[SendResult, ...]:
        """Pass the messages to their handlers, up to ``max_records`` together to a batch subscriber."""
        messages = [await self.message(cmd, body) for body in cmd.batch_bodies]
        for each in in_batches(messages, self._max_bytes):
            check_batch(each)
        batch = [self._received(message) for message in messages]
        if batch:
            for subscriber in self._for(batch[0]):
                for raw in _handler_calls(subscriber, batch):
                    await subscriber.process_message(raw)
        return tuple(_stored(each) for each in batch)

    async def request(self, cmd: GantryPublishCommand) -> ReceivedMessage:
        """Return the result of the first handler. Raises NoAnswer if no handler answers."""
        received = self._received(await self.message(cmd, cmd.body))
        for subscriber in self._for(received):
            with anyio.fail_after(cmd.timeout_s):
                raw = [received] if isinstance(subscriber, BatchSubscriber) else received
                result = await subscriber.process_message(raw)
            if subscriber._no_reply:
                break
            body, content_type = await self.encode_body(result.body)
            answer = make_message(cmd.destination, body, content_type, result.headers, result.correlation_id, "", {})
            check_message(answer, self._max_bytes)
            return self._received(answer)
        raise NoAnswer(f"no reply to the request to {cmd.destination}: no subscriber answers it")

    def _for(self, message: ReceivedMessage) -> Iterator[GantrySubscriber]:
        served = set[str]()
        for subscriber in _subscribers(self._brokers):
            broadcasting = subscriber._config.settings.get("broadcasting", False)
            if _matches(subscriber, message) and (broadcasting or subscriber.group not in served):
                served.add(subscriber.group)
                yield subscriber

    def _received(self, message: Message) -> ReceivedMessage:
        unique_id, offset = next(self._ids), next(self._offsets)
        properties = {**message.all_properties(), names.UNIQ_KEY: unique_id}
        return ReceivedMessage(
            topic=message.topic,
            body=message.body,
            properties=properties,
            flag=message.flag,
            queue_id=0,
            queue_offset=offset,
            log_offset=offset,
            store_size=len(message.body),
            sys_flag=0,
            born_timestamp=0,
            born_host="127.0.0.1:0",
            store_timestamp=0,
            store_host="127.0.0.1:0",
            reconsume_times=0,
            body_crc=0,
            prepared_offset=0,
            offset_id=unique_id,
            broker_name=_IN_MEMORY,
        )


def _check_properties(message: Message) -> None:
    """Reject properties that cannot be sent. Raises RequestMalformed, BrokerRefused."""
    text = names.encode_text(message.all_properties())
    try:
        size = len(text.encode()) + _ADDED_BYTES
    except UnicodeEncodeError:
        raise RequestMalformed("a header holds text that is not valid UTF-16") from None
    if size > names.MAX_SENT_BYTES:
        raise _refused(
            f"the properties have {size} bytes with those that the broker adds, the longest allowed is "
            f"{names.MAX_SENT_BYTES}"
        )


def _refused(reason: str) -> BrokerRefused:
    return BrokerRefused(MessageIllegal.response_code, reason, _IN_MEMORY)


def _check_delay(message: Message) -> None:
    """Reject a delay that a broker with default settings rejects. Raises BrokerRefused."""
    if abs(message.delay_level) > _MAX_LEVEL:
        raise _refused(f"DELAY={message.delay_level!s:.40} is not a delay level; give a whole number, 0 for none")
    at_ms, delay_ms = message.deliver_at_ms, message.delay_ms
    if at_ms is not None:
        delay_ms = max(delay_ms or 0, at_ms - RealClock().now_ms())
    if delay_ms is not None and delay_ms > _MAX_DELAY_MS and not message.delay_level:
        raise _refused(f"a delay of {delay_ms} ms is longer than the longest one here, {_MAX_DELAY_MS} ms")


def _matches(subscriber: GantrySubscriber, message: ReceivedMessage) -> bool:
    if message.topic not in subscriber.topics:
        return False
    subscription = _subscription(subscriber, message.topic)
    return subscription is None or subscription.matches(message)


def _subscription(subscriber: GantrySubscriber, topic: str) -> Subscription | None:
    """Return the subscription of *subscriber* to *topic*; None if it cannot be evaluated here.

    Raises:
        ClientError: its expression is invalid.
    """
    try:
        return Subscription(topic, subscriber.expression, subscriber.expression_type, group=subscriber.group)
    except PluginAbsent as absent:
        warnings.warn(
            f"the subscriber of {subscriber.group} receives every message in this test, as its expression cannot be "
            f"evaluated: {absent}",
            stacklevel=2,
        )
        return None


def _handler_calls(subscriber: GantrySubscriber, batch: list[ReceivedMessage]) -> Sequence[Any]:
    """Divide *batch* into the arguments of the handler calls of *subscriber*."""
    if not isinstance(subscriber, BatchSubscriber):
        return batch
    most = subscriber.max_records
    return [batch[at : at + most] for at in range(0, len(batch), most)]


def _subscribers(brokers: Iterable[GantryBroker]) -> Iterator[GantrySubscriber]:
    return (cast("GantrySubscriber", each) for broker in brokers for each in broker.subscribers)


def _stored(message: ReceivedMessage) -> SendResult:
    return SendResult(
        SendStatus.SEND_OK,
        (message.message_id,),
        (message.offset_id,),
        MessageQueue(message.topic, _IN_MEMORY, message.queue_id),
        message.queue_offset,
    )
