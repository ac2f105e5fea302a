"""Small protocols that plugins implement or receive. Plugins may import the names in ``__all__``.

A hook (`gantrymq.hooks`) registers objects with these interfaces once at startup; the hot path calls the objects.
"""

from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.broker import Broker, ConsumerHeartbeat, Heartbeat, OnlineClient
from gantrymq.interfaces.connection import Connection
from gantrymq.interfaces.dispatch import DispatchEntry, Dispatcher
from gantrymq.interfaces.extension_points import Gate, Guard, Handler, Interceptor, Service
from gantrymq.interfaces.filtering import BitMaps, ExtUnit, FilterType, MessageFilter, PropertiesFilter
from gantrymq.interfaces.metrics import BrokerMetrics, MetricFamily, MidnightCounts, OnlineGroup, Throughput
from gantrymq.interfaces.name_servers import NameServer, NameServerKind
from gantrymq.interfaces.pulling import LastPull, PullAnswer, PullRequest, QueueStatus
from gantrymq.interfaces.registries import (
    AllocationRegistry,
    CommandRegistry,
    ConfigRegistry,
    DispatcherRegistry,
    FilterRegistry,
    GateRegistry,
    GuardRegistry,
    HandlerRegistry,
    InterceptorRegistry,
    NameServerRegistry,
    ServiceRegistry,
    StoreContext,
    StoreRegistry,
    TransactionRegistry,
)
from gantrymq.interfaces.sending import SendAnswer, SendRequest
from gantrymq.interfaces.store import (
    BoundaryType,
    Bounds,
    Cleaning,
    CleanReport,
    GetLimit,
    GetResult,
    GetStatus,
    MessageStore,
    MovedMessage,
    PutResult,
    PutStatus,
    QueryResult,
    QueueTargets,
    RecoveryReport,
    StoreMessage,
    StoreState,
)
from gantrymq.interfaces.transactions import EndTransaction, Outcome, TransactionService

__all__ = [
    "AllocationRegistry",
    "AllocationStrategy",
    "BitMaps",
    "BoundaryType",
    "Bounds",
    "Broker",
    "BrokerMetrics",
    "CleanReport",
    "Cleaning",
    "CommandRegistry",
    "ConfigRegistry",
    "Connection",
    "ConsumerHeartbeat",
    "DispatchEntry",
    "Dispatcher",
    "DispatcherRegistry",
    "EndTransaction",
    "ExtUnit",
    "FilterRegistry",
    "FilterType",
    "Gate",
    "GateRegistry",
    "GetLimit",
    "GetResult",
    "GetStatus",
    "Guard",
    "GuardRegistry",
    "Handler",
    "HandlerRegistry",
    "Heartbeat",
    "Interceptor",
    "InterceptorRegistry",
    "LastPull",
    "MessageFilter",
    "MessageStore",
    "MetricFamily",
    "MidnightCounts",
    "MovedMessage",
    "NameServer",
    "NameServerKind",
    "NameServerRegistry",
    "OnlineClient",
    "OnlineGroup",
    "Outcome",
    "PropertiesFilter",
    "PullAnswer",
    "PullRequest",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueStatus",
    "QueueTargets",
    "RecoveryReport",
    "SendAnswer",
    "SendRequest",
    "Service",
    "ServiceRegistry",
    "StoreContext",
    "StoreMessage",
    "StoreRegistry",
    "StoreState",
    "Throughput",
    "TransactionRegistry",
    "TransactionService",
]
