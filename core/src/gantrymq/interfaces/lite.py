"""Lite topics (RIP-83) as operations: what the service ``lite`` offers (`Broker.service`).

A lite topic is one of many small, short-lived topics below a parent topic with ``message.type=LITE``. It has one light
queue (`gantrymq.model.light_queues`), which is delivered in order: nothing after a message that is not acknowledged. A
consumer subscribes to lite topics one by one, and one request receives the messages of all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.interfaces.pop import InvisibleTime, PopAnswer
from gantrymq.model.access import Principal
from gantrymq.model.receipt import Receipt

__all__ = [
    "LiteAction",
    "LiteGroup",
    "LiteMessage",
    "LiteRequest",
    "LiteService",
    "LiteSubscription",
    "OffsetKind",
    "OffsetOption",
]


class LiteAction(enum.Enum):
    """What a change of subscriptions does; the names are RocketMQ's."""

    PARTIAL_ADD = 0
    PARTIAL_REMOVE = 1
    COMPLETE_ADD = 2  # the lite topics are all that the client has; sent again every 30 s or so
    COMPLETE_REMOVE = 3  # the client has none any more


class OffsetKind(enum.Enum):
    """Where a group begins in a lite topic; the names are RocketMQ's."""

    POLICY = "POLICY"  # 0: where the group is, as without an option; 1: at the first message; 2: at the end
    OFFSET = "OFFSET"  # a queue offset
    TAIL_N = "TAIL_N"  # a number of messages before the group's offset
    TIMESTAMP = "TIMESTAMP"  # ms


class OffsetOption(NamedTuple):
    """Where a group begins in the lite topics of a PARTIAL_ADD."""

    kind: OffsetKind
    value: int


class LiteGroup(NamedTuple):
    """The attributes of a group that consumes lite topics."""

    topic: str  # the parent topic that the group is bound to
    exclusive: bool  # a lite topic has one consumer of the group; a new one pushes the old one out
    quota: int  # lite topics that SDKs let one client have; -1: no limit


class LiteSubscription(NamedTuple):
    """A change of the subscriptions of one client."""

    action: LiteAction
    client_id: str
    group: str
    topic: str  # the parent topic
    lite_topics: Sequence[str] = ()
    offset: OffsetOption | None = None  # for PARTIAL_ADD
    version: int = 0  # of a complete set, by the client's clock; an older one is taken too, as in RocketMQ
    principal: Principal | None = None  # the consumer; None: the broker itself, not checked


class LiteRequest(NamedTuple):
    """A request for messages of the lite topics that a client is subscribed to."""

    group: str
    topic: str  # the parent topic
    client_id: str
    max_count: int = 32
    invisible_ms: int = 60_000
    wait_ms: int = 0  # how long to wait for messages, from *born_ms*
    born_ms: int = 0  # when the client sent the request, wall clock; 0: now
    attempt_id: str | None = None  # of a request that is repeated: it gets the same messages
    principal: Principal | None = None


class LiteMessage(NamedTuple):
    """A received message, as named in acknowledgements and changes of its invisible time."""

    group: str
    topic: str  # the parent topic
    lite_topic: str  # empty: that of the record at the receipt's log offset
    receipt: Receipt
    principal: Principal | None = None


class LiteService(Protocol):
    """The service ``lite``."""

    def group(self, name: str) -> LiteGroup | None:
        """Return the attributes of a group of lite topics; None if it does not exist or is of another kind."""

    def check_consumer(self, group: str, topic: str, principal: Principal | None = None) -> None:
        """Check that a group may consume the lite topics of *topic*.

        Raises:
            RequestError: topic or group do not exist, may not be read, or *principal* may not; the broker has no light
                queues.
            LiteGroupMismatch: *topic* has no lite topics, or the group is not bound to it.
        """

    async def subscribe(self, change: LiteSubscription, client: ClientChannel) -> None:
        """Change the subscriptions of a client, which *client* connects.

        Subscriptions are kept in memory: a client sends its complete set now and then, also after a restart of the
        broker, and the subscriptions of a client that does not are removed after
        ``liteSubscriptionCheckTimeoutMills``. A new group begins at the first message. In an exclusive group the former
        consumers of the lite topics are told (`ClientCalls.lite_unsubscribed`).

        Raises:
            LiteTopicIllegal: the name of a lite topic.
            LiteSubscriptionQuotaExceeded: ``maxLiteSubscriptionCount`` was reached before this PARTIAL_ADD.
            RequestError: as `check_consumer`; nothing is changed.
        """

    def client_gone(self, group: str, client_id: str) -> None:
        """Remove all subscriptions of a client that is gone; its received messages come again as they would."""

    async def receive(self, request: LiteRequest, client: ClientChannel) -> PopAnswer:
        """Return messages of the client's lite topics, waiting as long as the request allows.

        A batch of the answer has one light queue; queue offsets are those of the light queue. If the call is cancelled,
        or *client* is closed, what it would have got is given back.

        Raises:
            RequestError: as `check_consumer`.
            ConnectionLost: *client* was closed before the answer.
        """

    async def ack(self, message: LiteMessage) -> None:
        """Acknowledge a message, also one that is acknowledged or redelivered.

        Raises:
            LiteTopicIllegal: the lite topic is not named, and not known from the receipt.
            PoppedMessageGone: the lite topic has no such message.
            RequestError: as `check_consumer`.
        """

    async def change_invisible_time(self, message: LiteMessage, invisible_ms: int) -> InvisibleTime:
        """Make a message visible again *invisible_ms* from now; its lite topic waits for it. Raises as `ack`."""

    def is_delivered(self, message: LiteMessage) -> bool:
        """Return whether a message was delivered last under its receipt, and is neither acknowledged nor visible."""

    def renew(self, message: LiteMessage, invisible_ms: int) -> Sequence[int]:
        """Let the unacknowledged messages of a delivery stay invisible until *invisible_ms* from now.

        Their receipts stay valid. Messages whose invisible time was changed are left out.

        Returns:
            The queue offsets of these messages; none if all are acknowledged, changed or redelivered.
        """

    def give_back(self, messages: Sequence[LiteMessage]) -> None:
        """Make received messages that did not reach their consumer visible again, one second from now."""

    async def forward_to_dead_letters(self, message: LiteMessage, log_offset: int) -> None:
        """Store a copy of a message in the group's dead letter topic, then acknowledge it.

        *log_offset*: of its record.

        Raises:
            ReceiptIllegal: another message is stored at *log_offset*.
            RequestError, StoreError: as `Messages.send_back` and `ack`.
        """
