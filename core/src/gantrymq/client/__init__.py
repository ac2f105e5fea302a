"""The client library: asyncio, pure Python, for our servers and for Java ones.

Names are imported on first use, so that a program that only sends does not pay for the rest. Each export is listed
twice: in a table of modules for Python, and as imports for type checkers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

_HOMES: Final = {
    name: home
    for home, names in {
        "gantrymq.client.admin": "Admin OffsetTarget QueueStats",
        "gantrymq.client.client": "Client",
        "gantrymq.client.calls.connection_config": "ConnectOptions",
        "gantrymq.client.calls.credentials": "Credentials",
        "gantrymq.client.group.consumer": "Consumer",
        "gantrymq.client.group.redelivery": "ReconsumeLater",
        "gantrymq.client.group.lite_pull": "LitePullConsumer",
        "gantrymq.client.group.settings": "ConsumerSettings LitePullSettings",
        "gantrymq.client.idempotency.consuming": "Idempotent idempotent",
        "gantrymq.client.idempotency.sqlalchemy_records": "SqlAlchemyRecords",
        "gantrymq.client.idempotency.sqlite_records": "SqliteRecords",
        "gantrymq.client.idempotency.threads": "ThreadConnection",
        "gantrymq.client.message": "Message ReceivedMessage TransactionState",
        "gantrymq.client.pop.consumer": "PopConsumer PopSettings",
        "gantrymq.client.errors": "OptionUnusable PluginAbsent",
        "gantrymq.client.producing.producer": "Producer",
        "gantrymq.client.sending.producer_settings": "Batching ProducerSettings",
        "gantrymq.client.reading.backwards": "BackwardPage",
        "gantrymq.client.reading.pull_result": "PullResult PullStatus PulledRecords",
        "gantrymq.client.reading.reader": "Reader ReaderSettings",
        "gantrymq.client.connection.request_reply": "reply_to",
        "gantrymq.client.sending.results": "SendFailed SendResult SendStatus",
        "gantrymq.client.sending.selectors": "Balancing Selector at_random by_key",
        "gantrymq.client.reading.subscription": "Subscription",
        "gantrymq.client.tracing.hooks": (
            "ConsumeContext ConsumeHook ConsumeOutcome EndTransactionContext ProcessHook SendContext SendHook "
            "TransactionHook"
        ),
        "gantrymq.client.tracing.message_trace": "MessageTrace",
        "gantrymq.client.tracing.records": "decode_trace",
        "gantrymq.client.producing.transactions": "Transaction TransactionProducer",
        "gantrymq.errors": (
            "BrokerRefused CallTimeout ClientError ConnectFailed ConnectionLost InvalidParameter "
            "MessageIllegal NoPermission NoRoute SubscriptionParseFailed"
        ),
        "gantrymq.model.group": "GroupConfig",
        "gantrymq.model.queue": "MessageQueue",
        "gantrymq.model.topic": "TopicConfig",
        "gantrymq.remoting.tls_contexts": "TlsClient",
    }.items()
    for name in names.split()
}

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin as Admin
    from gantrymq.client.admin import OffsetTarget as OffsetTarget
    from gantrymq.client.admin import QueueStats as QueueStats
    from gantrymq.client.calls.connection_config import ConnectOptions as ConnectOptions
    from gantrymq.client.calls.credentials import Credentials as Credentials
    from gantrymq.client.client import Client as Client
    from gantrymq.client.connection.request_reply import reply_to as reply_to
    from gantrymq.client.errors import OptionUnusable as OptionUnusable
    from gantrymq.client.errors import PluginAbsent as PluginAbsent
    from gantrymq.client.group.consumer import Consumer as Consumer
    from gantrymq.client.group.lite_pull import LitePullConsumer as LitePullConsumer
    from gantrymq.client.group.redelivery import ReconsumeLater as ReconsumeLater
    from gantrymq.client.group.settings import ConsumerSettings as ConsumerSettings
    from gantrymq.client.group.settings import LitePullSettings as LitePullSettings
    from gantrymq.client.idempotency.consuming import Idempotent as Idempotent
    from gantrymq.client.idempotency.consuming import idempotent as idempotent
    from gantrymq.client.idempotency.sqlalchemy_records import SqlAlchemyRecords as SqlAlchemyRecords
    from gantrymq.client.idempotency.sqlite_records import SqliteRecords as SqliteRecords
    from gantrymq.client.idempotency.threads import ThreadConnection as ThreadConnection
    from gantrymq.client.message import Message as Message
    from gantrymq.client.message import ReceivedMessage as ReceivedMessage
    from gantrymq.client.message import TransactionState as TransactionState
    from gantrymq.client.pop.consumer import PopConsumer as PopConsumer
    from gantrymq.client.pop.consumer import PopSettings as PopSettings
    from gantrymq.client.producing.producer import Producer as Producer
    from gantrymq.client.producing.transactions import Transaction as Transaction
    from gantrymq.client.producing.transactions import TransactionProducer as TransactionProducer
    from gantrymq.client.reading.backwards import BackwardPage as BackwardPage
    from gantrymq.client.reading.pull_result import PulledRecords as PulledRecords
    from gantrymq.client.reading.pull_result import PullResult as PullResult
    from gantrymq.client.reading.pull_result import PullStatus as PullStatus
    from gantrymq.client.reading.reader import Reader as Reader
    from gantrymq.client.reading.reader import ReaderSettings as ReaderSettings
    from gantrymq.client.reading.subscription import Subscription as Subscription
    from gantrymq.client.sending.producer_settings import Batching as Batching
    from gantrymq.client.sending.producer_settings import ProducerSettings as ProducerSettings
    from gantrymq.client.sending.results import SendFailed as SendFailed
    from gantrymq.client.sending.results import SendResult as SendResult
    from gantrymq.client.sending.results import SendStatus as SendStatus
    from gantrymq.client.sending.selectors import Balancing as Balancing
    from gantrymq.client.sending.selectors import Selector as Selector
    from gantrymq.client.sending.selectors import at_random as at_random
    from gantrymq.client.sending.selectors import by_key as by_key
    from gantrymq.client.tracing.hooks import ConsumeContext as ConsumeContext
    from gantrymq.client.tracing.hooks import ConsumeHook as ConsumeHook
    from gantrymq.client.tracing.hooks import ConsumeOutcome as ConsumeOutcome
    from gantrymq.client.tracing.hooks import EndTransactionContext as EndTransactionContext
    from gantrymq.client.tracing.hooks import ProcessHook as ProcessHook
    from gantrymq.client.tracing.hooks import SendContext as SendContext
    from gantrymq.client.tracing.hooks import SendHook as SendHook
    from gantrymq.client.tracing.hooks import TransactionHook as TransactionHook
    from gantrymq.client.tracing.message_trace import MessageTrace as MessageTrace
    from gantrymq.client.tracing.records import decode_trace as decode_trace
    from gantrymq.errors import BrokerRefused as BrokerRefused
    from gantrymq.errors import CallTimeout as CallTimeout
    from gantrymq.errors import ClientError as ClientError
    from gantrymq.errors import ConnectFailed as ConnectFailed
    from gantrymq.errors import ConnectionLost as ConnectionLost
    from gantrymq.errors import InvalidParameter as InvalidParameter
    from gantrymq.errors import MessageIllegal as MessageIllegal
    from gantrymq.errors import NoPermission as NoPermission
    from gantrymq.errors import NoRoute as NoRoute
    from gantrymq.errors import SubscriptionParseFailed as SubscriptionParseFailed
    from gantrymq.model.group import GroupConfig as GroupConfig
    from gantrymq.model.queue import MessageQueue as MessageQueue
    from gantrymq.model.topic import TopicConfig as TopicConfig
    from gantrymq.remoting.tls_contexts import TlsClient as TlsClient
else:  # type checkers cannot read a computed __all__, and __getattr__ would accept any name
    __all__ = sorted(_HOMES)

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
