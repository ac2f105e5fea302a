"""The client library: asyncio, pure Python, for our servers and for Java ones.

A name is loaded when it is first used, so that a program that only sends does not wait for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin, OffsetTarget, QueueStats
    from gantrymq.client.client import Client
    from gantrymq.client.connecting import ConnectOptions
    from gantrymq.client.credentials import Credentials
    from gantrymq.client.group.consumer import Consumer
    from gantrymq.client.group.failing import ReconsumeLater
    from gantrymq.client.group.lite_pull import LitePullConsumer
    from gantrymq.client.group.settings import ConsumerSettings
    from gantrymq.client.idempotency.consuming import Idempotent, idempotent
    from gantrymq.client.idempotency.sqlalchemy_records import SqlAlchemyRecords
    from gantrymq.client.idempotency.sqlite_records import SqliteRecords
    from gantrymq.client.idempotency.threads import ThreadConnection
    from gantrymq.client.pop.consumer import PopConsumer
    from gantrymq.client.producer import Producer
    from gantrymq.client.producer_settings import Batching, ProducerSettings
    from gantrymq.client.pull_result import PulledRecords, PullResult, PullStatus
    from gantrymq.client.reader import Reader
    from gantrymq.client.requesting import reply_to
    from gantrymq.client.results import SendFailed, SendResult, SendStatus
    from gantrymq.client.selectors import Balancing, Selector, at_random, by_key
    from gantrymq.client.subscription import Subscription
    from gantrymq.client.tracing.hooks import (
        ConsumeContext,
        ConsumeHook,
        ConsumeOutcome,
        EndTransactionContext,
        SendContext,
        SendHook,
        TransactionHook,
    )
    from gantrymq.client.tracing.message_trace import MessageTrace
    from gantrymq.client.tracing.records import decode_trace
    from gantrymq.client.transactions import Transaction, TransactionProducer, TransactionState
    from gantrymq.errors import (
        BrokerRefused,
        CallTimeout,
        ClientError,
        ConnectFailed,
        ConnectionLost,
        InvalidParameter,
        MessageIllegal,
        NoPermission,
        NoRoute,
    )
    from gantrymq.model.group import GroupConfig
    from gantrymq.model.message import Message, ReceivedMessage
    from gantrymq.model.queue import MessageQueue
    from gantrymq.model.topic import TopicConfig
    from gantrymq.remoting.tls_contexts import TlsClient

__all__ = [
    "Admin",
    "Balancing",
    "Batching",
    "BrokerRefused",
    "CallTimeout",
    "Client",
    "ClientError",
    "ConnectFailed",
    "ConnectOptions",
    "ConnectionLost",
    "ConsumeContext",
    "ConsumeHook",
    "ConsumeOutcome",
    "Consumer",
    "ConsumerSettings",
    "Credentials",
    "EndTransactionContext",
    "GroupConfig",
    "Idempotent",
    "InvalidParameter",
    "LitePullConsumer",
    "Message",
    "MessageIllegal",
    "MessageQueue",
    "MessageTrace",
    "NoPermission",
    "NoRoute",
    "OffsetTarget",
    "PopConsumer",
    "Producer",
    "ProducerSettings",
    "PullResult",
    "PullStatus",
    "PulledRecords",
    "QueueStats",
    "Reader",
    "ReceivedMessage",
    "ReconsumeLater",
    "Selector",
    "SendContext",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "SqlAlchemyRecords",
    "SqliteRecords",
    "Subscription",
    "ThreadConnection",
    "TlsClient",
    "TopicConfig",
    "Transaction",
    "TransactionHook",
    "TransactionProducer",
    "TransactionState",
    "at_random",
    "by_key",
    "decode_trace",
    "idempotent",
    "reply_to",
]

_HOMES: Final = {
    "Admin": "gantrymq.client.admin",
    "Balancing": "gantrymq.client.selectors",
    "Batching": "gantrymq.client.producer_settings",
    "BrokerRefused": "gantrymq.errors",
    "CallTimeout": "gantrymq.errors",
    "Client": "gantrymq.client.client",
    "ClientError": "gantrymq.errors",
    "ConnectFailed": "gantrymq.errors",
    "ConnectOptions": "gantrymq.client.connecting",
    "ConnectionLost": "gantrymq.errors",
    "ConsumeContext": "gantrymq.client.tracing.hooks",
    "ConsumeHook": "gantrymq.client.tracing.hooks",
    "ConsumeOutcome": "gantrymq.client.tracing.hooks",
    "Consumer": "gantrymq.client.group.consumer",
    "ConsumerSettings": "gantrymq.client.group.settings",
    "Credentials": "gantrymq.client.credentials",
    "EndTransactionContext": "gantrymq.client.tracing.hooks",
    "GroupConfig": "gantrymq.model.group",
    "Idempotent": "gantrymq.client.idempotency.consuming",
    "InvalidParameter": "gantrymq.errors",
    "LitePullConsumer": "gantrymq.client.group.lite_pull",
    "Message": "gantrymq.model.message",
    "MessageIllegal": "gantrymq.errors",
    "MessageQueue": "gantrymq.model.queue",
    "MessageTrace": "gantrymq.client.tracing.message_trace",
    "NoPermission": "gantrymq.errors",
    "NoRoute": "gantrymq.errors",
    "OffsetTarget": "gantrymq.client.admin",
    "PopConsumer": "gantrymq.client.pop.consumer",
    "Producer": "gantrymq.client.producer",
    "ProducerSettings": "gantrymq.client.producer_settings",
    "PullResult": "gantrymq.client.pull_result",
    "PullStatus": "gantrymq.client.pull_result",
    "PulledRecords": "gantrymq.client.pull_result",
    "QueueStats": "gantrymq.client.admin",
    "Reader": "gantrymq.client.reader",
    "ReceivedMessage": "gantrymq.model.message",
    "ReconsumeLater": "gantrymq.client.group.failing",
    "Selector": "gantrymq.client.selectors",
    "SendContext": "gantrymq.client.tracing.hooks",
    "SendFailed": "gantrymq.client.results",
    "SendHook": "gantrymq.client.tracing.hooks",
    "SendResult": "gantrymq.client.results",
    "SendStatus": "gantrymq.client.results",
    "SqlAlchemyRecords": "gantrymq.client.idempotency.sqlalchemy_records",
    "SqliteRecords": "gantrymq.client.idempotency.sqlite_records",
    "Subscription": "gantrymq.client.subscription",
    "ThreadConnection": "gantrymq.client.idempotency.threads",
    "TlsClient": "gantrymq.remoting.tls_contexts",
    "TopicConfig": "gantrymq.model.topic",
    "Transaction": "gantrymq.client.transactions",
    "TransactionHook": "gantrymq.client.tracing.hooks",
    "TransactionProducer": "gantrymq.client.transactions",
    "TransactionState": "gantrymq.client.transactions",
    "at_random": "gantrymq.client.selectors",
    "by_key": "gantrymq.client.selectors",
    "decode_trace": "gantrymq.client.tracing.records",
    "idempotent": "gantrymq.client.idempotency.consuming",
    "reply_to": "gantrymq.client.requesting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
