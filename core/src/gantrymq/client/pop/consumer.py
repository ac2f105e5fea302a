"""The pop consumer: no assigned queues, each message acknowledged separately.

    consumer = client.pop_consumer("billing", "Orders")
    async for message in consumer:                     # acknowledged when the loop requests the next one
        print(message.body)

    for message in await consumer.pop():               # or explicitly
        await consumer.ack(message)

A broker delivers a message to one consumer of the group and hides it from the others for the invisible time. If it is
not acknowledged by then, it is delivered again. A slow message blocks no others, a group may have any number of
consumers, and delivery is at least once. Pop consumers are not members of their group and have no queues of their own.

Sources: apache/rocketmq client/.../impl/MQClientAPIImpl.java (popMessageAsync and the like),
client/.../impl/consumer/ConsumeMessagePopConcurrentlyService.java (delays).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import attrs
from attrs.validators import optional

from gantrymq.client.argument_types import check_kind, check_number, number_from
from gantrymq.client.calls.connection_config import settings_of
from gantrymq.client.connection.base import Part
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.group.membership import subscription_of
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.ack_buffer import key_of
from gantrymq.client.pop.calls import PopParameters
from gantrymq.client.pop.receipts import receipt_of
from gantrymq.client.pop.run import PopIterator, PopRun
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.client.tracing.instrumentation import Instrumentation, InstrumentationOptions
from gantrymq.errors import InvalidParameter
from gantrymq.model import names
from gantrymq.model.subscription import ALL, TAG

if TYPE_CHECKING:
    from gantrymq.client.tracing.hooks import Hook
    from gantrymq.client.tracing.message_trace import MessageTrace

_INVISIBLE_S: Final = 60.0  # RocketMQ's popInvisibleTime
_POLL_S: Final = 15.0  # BROKER_SUSPEND_MAX_TIME_MILLIS of DefaultMQPushConsumerImpl
_MOST: Final = 32  # messages per pop
_LONGEST_S: Final = 3 * 86400.0  # maximum invisible time
_DELAYS_S: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)  # of nack


def _check_start(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value not in ("last", "first"):
        raise InvalidParameter(f"{field.name} is {value!r}; expected 'last' or 'first'")


@attrs.frozen(kw_only=True)
class PopSettings:
    """Settings of a pop consumer. Raises InvalidParameter for a value out of bounds."""

    expression: str = ALL
    """``TagA || TagB``, ``*`` for all, or the syntax of another filter type."""

    expression_type: str = TAG
    """TAG or SQL92."""

    invisible_s: float = attrs.field(default=_INVISIBLE_S, validator=number_from(1, _LONGEST_S))
    """How long a delivered message is hidden from other consumers, 1 s to three days."""

    poll_s: float = attrs.field(default=_POLL_S, validator=number_from(1, 60))
    """How long a broker may wait for a message, 1 s to 60 s."""

    batch: int = attrs.field(default=_MOST, validator=number_from(1, _MOST))
    """Messages per pop, 1 to 32."""

    consume_from: Literal["last", "first"] = attrs.field(default="last", validator=_check_start)
    """Where a new group starts; "last" is the last message of each queue, as in RocketMQ."""

    orderly: bool = False
    """A queue delivers no more messages until all delivered ones are acknowledged, or their time ends."""

    auto_ack: bool = True
    """Requesting the next message in a loop acknowledges the one before; False to use `PopConsumer.ack`."""

    renew_for_s: float | None = attrs.field(default=None, validator=optional(number_from(1, _LONGEST_S)))
    """For processing that takes longer than ``invisible_s``: keep in-flight messages invisible for this long, renewing
    after half of the invisible time; None for no renewals.
    """

    check_crcs: bool = False
    """Verify bodies against the CRC of their records, see `body_problem`."""


class PopOptions(InstrumentationOptions, total=False):
    """Options of `Client.pop_consumer`, each may be omitted: the fields of `PopSettings`, hooks and trace."""

    expression: str
    expression_type: str
    invisible_s: float
    poll_s: float
    batch: int
    consume_from: Literal["last", "first"]
    orderly: bool
    auto_ack: bool
    renew_for_s: float | None
    check_crcs: bool


class PopConsumer(Part):
    """Pops messages of one topic for one group; created by `Client.pop_consumer`, usable until `close`."""

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        hooks: Iterable[Hook] = (),
        trace: bool | MessageTrace = False,
        **settings: Any,
    ) -> None:
        """Store the options, as `Client.pop_consumer` passes them on; *settings* are those of `PopSettings`.

        Raises:
            InvalidParameter: a name or option is not valid, an option does not exist, or one of *hooks* is not a hook.
        """
        super().__init__()
        names.check_group(group)
        self.group = group
        self.topic = topic
        given = self.settings = settings_of(type(self), PopSettings, settings)
        self._subscription = subscription_of(topic, given.expression, given.expression_type)
        self._parameters = PopParameters(
            given.batch,
            round(given.invisible_s * 1000),
            round(given.poll_s * 1000),
            given.consume_from == "first",
            given.orderly,
            given.check_crcs,
        )
        self._instrumentation = Instrumentation(hooks, trace)
        self._run: PopRun | None = None

    @property
    def trace(self) -> MessageTrace | None:
        """The message trace, with counts of its records; None without one."""
        return self._instrumentation.trace

    def _register(self, instance: ClientInstance) -> None:
        longest_s = self.settings.renew_for_s or self._parameters.invisible_ms / 1000
        hooks = self._instrumentation.consumptions(
            instance, self.group, broadcasting=False, consume_timeout_s=longest_s
        )
        self._run = PopRun(instance, self.group, self._subscription, self._parameters, self.settings.renew_for_s, hooks)

    async def _finish(self) -> None:
        if self._run is not None:
            await self._run.finish()

    async def _unregister(self, instance: ClientInstance) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.end()
            await self._instrumentation.close()

    async def pop(
        self, max_count: int | None = None, *, poll_s: float | None = None, invisible_s: float | None = None
    ) -> tuple[ReceivedMessage, ...]:
        """Pop messages of any queue and hide them from other consumers; acknowledge each with `ack`.

        Check `body_problem` of each message before reading its body. If several brokers have the topic, all are
        queried; messages that others return after the first response are returned by the next call.

        Args:
            max_count: maximum number of messages per broker, 1 to 32; None for ``batch``.
            poll_s: how long brokers may wait for a message, 0 to 60; None for the ``poll_s`` of the consumer.
            invisible_s: None for that of the consumer.

        Returns:
            Messages; none if the time is over.

        Raises:
            InvalidParameter: an argument is out of bounds.
            ClientError: a broker does not support pop.
            NoRoute: no name server knows the topic.
            BrokerRefused: the broker denies access to the group, or cannot parse the expression.
            ConnectFailed, ConnectionLost, CallTimeout: no broker responds.
        """
        run, parameters = self._running(), self._parameters
        self._check_not_closing()
        if max_count is not None:
            parameters = attrs.evolve(parameters, max_count=_within("max_count", max_count, 1, _MOST))
        if poll_s is not None:
            parameters = attrs.evolve(parameters, poll_ms=round(1000 * _within("poll_s", poll_s, 0, 60)))
        if invisible_s is not None:
            parameters = attrs.evolve(parameters, invisible_ms=_ms("invisible_s", invisible_s))
        waiting = run.take_ready()  # given back by a loop that was left
        found = [waiting] if waiting is not None else (await run.pop(parameters))[0]
        run.report_delivered(found)
        return tuple(message for message, _ in found)

    def __aiter__(self) -> PopIterator:
        """Iterate over messages one by one; several tasks may each have a loop.

        A loop that is left gives its message to the next one; after `close` it is delivered again within a second.

        Raises:
            as `pop`, but a disconnected broker is retried every second.
        """
        return PopIterator(self._running(), self.settings.auto_ack)

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Acknowledge *messages*; returns when their brokers have it, with one request per broker.

        Raises:
            ClientError: one was not popped.
            BrokerRefused: a receipt is no longer valid, or belongs to another group.
            NoRoute, ConnectFailed, ConnectionLost, CallTimeout: a broker does not respond.
        """
        run = self._running()
        for message in messages:
            run.in_iterators.pop(key_of(message), None)
            await run.renewals.remove(message)
        await run.calls.ack([receipt_of(message) for message in messages])
        for message in messages:
            run.report_settled(message, ConsumeOutcome.SUCCESS)

    async def nack(self, message: ReceivedMessage, delay_s: float | None = None) -> None:
        """Have *message* delivered again in *delay_s* seconds, with `reconsume_times` one higher.

        Args:
            message: a popped message.
            delay_s: 1 s to three days; None for 10 s, 30 s, 1 min and so on with each delivery, up to 2 h.

        Raises as `ack`.
        """
        check_kind("message", message, ReceivedMessage)
        if delay_s is None:
            delay_s = _DELAYS_S[min(message.reconsume_times, len(_DELAYS_S) - 1)]
        run = self._running()
        await run.change(message, _ms("delay_s", delay_s))
        run.report_settled(message, ConsumeOutcome.FAILED)

    async def change_invisible_time(self, message: ReceivedMessage, invisible_s: float) -> None:
        """Have *message* delivered again in *invisible_s* seconds unless it is acknowledged before. Raises as `ack`."""
        await self._running().change(message, _ms("invisible_s", invisible_s))

    def _running(self) -> PopRun:
        self._started()
        assert self._run is not None
        return self._run


Number = TypeVar("Number", int, float)


def _within(name: str, value: Number, least: float, most: float) -> Number:
    check_number(name, value, least, most, whole=name == "batch")
    return value


def _ms(name: str, seconds: float) -> int:
    return round(1000 * _within(name, seconds, 1, _LONGEST_S))
