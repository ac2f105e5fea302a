"""Hooks: objects that are notified of sends, of consumed messages and of ends of transactions.

    class Counting:
        def after_send(self, context: SendContext) -> None:
            count(context.topic, context.error)

    client = Client("127.0.0.1:9876", hooks=[Counting()])

A hook implements one or more of the protocols below. Its methods are plain functions, called in the event loop in the
order of the hooks (in reverse order after consumption), and must be fast. The first exception of each method is logged;
exceptions never affect a send or a consumption.

Source: apache/rocketmq client/.../hook/SendMessageHook.java, ConsumeMessageHook.java, EndTransactionHook.java.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import attrs

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.message import TransactionState
    from gantrymq.client.sending.results import SendResult


SendKind = Literal["single", "oneway", "batch"]


class ConsumeOutcome(enum.Enum):
    """Outcome of delivered messages. Values are RocketMQ's (ConsumeReturnType), except for the last one."""

    SUCCESS = 0
    TIME_OUT = 1  # in flight for longer than ``consume_timeout_s``, whatever the result
    EXCEPTION = 2  # the handler raised
    FAILED = 4  # delivered again later: `ReconsumeLater`, a nack, or only some of a batch
    GIVEN_BACK = 5  # not settled: the loop ended, the queue was revoked, or the consumer was closed


@attrs.define(eq=False)
class SendContext:
    """One send of a producer, with all its attempts.

    ``messages`` are copies of the application's messages, with unique ids. Before the send a hook may add to their
    ``properties``, for example a trace context. If that makes a message invalid, it is logged and nothing is added.
    """

    kind: SendKind
    group: str
    client_id: str
    topic: str
    messages: tuple[Message, ...]  # several for a batch only
    queue: MessageQueue | None  # chosen by the application; after the send, the queue of the message
    started_ms: int  # wall time
    duration_s: float = 0.0  # after the send
    result: SendResult | None = None  # after a successful send, except oneway
    error: BaseException | None = None  # after a failed send
    broker_address: str = ""  # ip:port, after a send with a result
    notes: dict[Any, Any] = attrs.field(factory=dict)  # data of hooks from before to after, by hook


@attrs.define(eq=False)
class ConsumeContext:
    """Messages of one queue that were delivered together, to a loop or a handler.

    With ``auto_ack=False``, each message on its own, until it is acknowledged.
    """

    group: str
    client_id: str
    topic: str  # a retry topic for messages that are redelivered
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    batch: bool  # whether the application receives several at a time
    broadcasting: bool
    in_task: bool  # whether the messages are consumed in the task that makes both calls
    started_ms: int  # wall time
    duration_s: float = 0.0  # after
    outcome: ConsumeOutcome | None = None  # after
    consumed: int = 0  # after: number of messages, from the first on, that are not redelivered
    error: BaseException | None = None  # after EXCEPTION: the exception
    notes: dict[Any, Any] = attrs.field(factory=dict)  # data of hooks from before to after, by hook


@attrs.define(eq=False)
class EndTransactionContext:
    """Decision on a half message, before it is sent to the broker."""

    group: str
    client_id: str
    topic: str
    message: Message | ReceivedMessage  # a ReceivedMessage for a broker's check
    message_id: str
    transaction_id: str | None
    state: TransactionState
    from_check: bool  # whether it answers a broker's check
    broker_address: str  # ip:port


@runtime_checkable
class SendHook(Protocol):
    """Notified of sends."""

    def before_send(self, context: SendContext) -> None:
        """Called before messages are sent."""

    def after_send(self, context: SendContext) -> None:
        """Called after the send, also if it failed or was cancelled."""


@runtime_checkable
class ConsumeHook(Protocol):
    """Notified of consumed messages."""

    def before_consume(self, context: ConsumeContext) -> None:
        """Called when messages are delivered to the application."""

    def after_consume(self, context: ConsumeContext) -> None:
        """Called when the application is done with the messages."""


@runtime_checkable
class ProcessHook(Protocol):
    """Notified when the processing of messages starts and ends in a task, with ``auto_ack=False``.

    Both methods are called in the task, within `Consumer.processing`; code that processes the messages sees a
    `contextvars` variable that the first one sets.
    """

    def begin_processing(self, contexts: Sequence[ConsumeContext]) -> None:
        """Called when processing starts, with a context for each message, at least one."""

    def end_processing(self, contexts: Sequence[ConsumeContext]) -> None:
        """Called when processing has ended, before or after the messages are acknowledged."""


@runtime_checkable
class TransactionHook(Protocol):
    """Notified of ends of transactions."""

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Called when a transaction is decided."""


Hook = SendHook | ConsumeHook | TransactionHook
