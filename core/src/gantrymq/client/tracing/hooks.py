"""Hooks: objects that are told of every send, of every message that is consumed, and of every end of a transaction.

    class Counting:
        def after_send(self, context: SendContext) -> None:
            count(context.topic, context.error)

    client = Client("127.0.0.1:9876", hooks=[Counting()])

A hook has the methods of one of the protocols below, or of several. They are plain functions, called in the event loop
in the order in which the hooks were given (in the other order once messages are consumed), and have to be quick. What a
hook raises is logged the first time and goes no further: a message is sent, or consumed, as if it had not been there.

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
    from gantrymq.client.results import SendResult
    from gantrymq.client.transactions import TransactionState

__all__ = [
    "ConsumeContext",
    "ConsumeHook",
    "ConsumeOutcome",
    "EndTransactionContext",
    "Hook",
    "ProcessHook",
    "SendContext",
    "SendHook",
    "SendKind",
    "TransactionHook",
]

SendKind = Literal["single", "oneway", "batch"]


class ConsumeOutcome(enum.Enum):
    """What became of messages that were handed out. Values are RocketMQ's (ConsumeReturnType), but for the last."""

    SUCCESS = 0
    TIME_OUT = 1  # they were in hand for longer than ``consume_timeout_s``, whatever came of it
    EXCEPTION = 2  # the handler raised
    FAILED = 4  # delivered again later: `ReconsumeLater`, a nack, or only some of a batch
    GIVEN_BACK = 5  # nobody said anything: the loop was left, the queue went to another member, the consumer was closed


@attrs.define(eq=False)
class SendContext:
    """One send of a producer, all its attempts together.

    ``messages`` are copies of what the application gave, with their unique ids; before the send a hook may add to
    their ``properties``, which is how they carry a trace on. One that cannot be sent is logged, and none is added then.
    """

    kind: SendKind
    group: str
    client_id: str
    topic: str
    messages: tuple[Message, ...]  # one, but for a batch
    queue: MessageQueue | None  # that the application named; after the send the one that it lies in
    started_ms: int  # wall time
    duration_s: float = 0.0  # after the send
    result: SendResult | None = None  # after a send that succeeded, but for oneway
    error: BaseException | None = None  # after a send that failed
    broker_address: str = ""  # ip:port, after a send with a result
    notes: dict[Any, Any] = attrs.field(factory=dict)  # a hook's own, from before to after, by the hook


@attrs.define(eq=False)
class ConsumeContext:
    """Messages of one queue that were handed out together: to a loop, or to a handler.

    With ``auto_ack=False`` each message by itself, until it is acknowledged.
    """

    group: str
    client_id: str
    topic: str  # a retry topic for messages that failed before
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    batch: bool  # whether the application asked for several at a time
    broadcasting: bool
    in_task: bool  # whether they are consumed between both calls in the task that both are made in
    started_ms: int  # wall time
    duration_s: float = 0.0  # after
    outcome: ConsumeOutcome | None = None  # after
    consumed: int = 0  # after: so many, from the first on, need no other delivery
    error: BaseException | None = None  # after EXCEPTION: what was raised
    notes: dict[Any, Any] = attrs.field(factory=dict)  # a hook's own, from before to after, by the hook


@attrs.define(eq=False)
class EndTransactionContext:
    """A decision on a message that is stored out of sight, before its broker is told."""

    group: str
    client_id: str
    topic: str
    message: Message | ReceivedMessage  # the latter where a broker asked
    message_id: str
    transaction_id: str | None
    state: TransactionState
    from_check: bool  # whether a broker asked
    broker_address: str  # ip:port


@runtime_checkable
class SendHook(Protocol):
    """Is told of sends."""

    def before_send(self, context: SendContext) -> None:
        """Messages are about to be sent."""

    def after_send(self, context: SendContext) -> None:
        """They were sent, or were not; what failed or was cancelled comes here as well."""


@runtime_checkable
class ConsumeHook(Protocol):
    """Is told of messages consumed."""

    def before_consume(self, context: ConsumeContext) -> None:
        """Messages are handed out."""

    def after_consume(self, context: ConsumeContext) -> None:
        """They are in the application's hand no more."""


@runtime_checkable
class ProcessHook(Protocol):
    """Is told when the processing of messages begins and ends in a task, with ``auto_ack=False``.

    Both methods are called in the task, within `Consumer.processing`; a variable of `contextvars` that the first one
    sets is seen by whatever processes the messages.
    """

    def begin_processing(self, contexts: Sequence[ConsumeContext]) -> None:
        """Processing begins; a context for each message, at least one."""

    def end_processing(self, contexts: Sequence[ConsumeContext]) -> None:
        """Processing has ended; the messages may be acknowledged by now, or not yet."""


@runtime_checkable
class TransactionHook(Protocol):
    """Is told of the ends of transactions."""

    def end_transaction(self, context: EndTransactionContext) -> None:
        """A transaction was decided."""


Hook = SendHook | ConsumeHook | TransactionHook
