"""The small protocols that plugins implement or are given. What is in ``__all__`` is what plugins may import.

A hook (`gantrymq.hooks`) registers objects with these interfaces once, at start; the hot path calls the objects.
"""

from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.broker import Broker, ConsumerHeartbeat, Heartbeat, OnlineClient
from gantrymq.interfaces.connection import Connection
from gantrymq.interfaces.dispatch import DispatchEntry, Dispatcher
from gantrymq.interfaces.figures import Figures, Flow, Mornings, OnlineGroup, Shown
from gantrymq.interfaces.filtering import BitMaps, ExtUnit, FilterType, MessageFilter, PropertiesFilter
from gantrymq.interfaces.name_servers import NameServer, NameServerKind
from gantrymq.interfaces.plugged import Gate, Guard, Handler, Interceptor, Service
from gantrymq.interfaces.pulling import LastPull, PullAnswer, PullRequest, QueueReading
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
    Bounds,
    Cleaning,
    CleanReport,
    Edge,
    GetLimit,
    GetResult,
    GetStatus,
    MessageStore,
    MovedMessage,
    Placing,
    PutResult,
    PutStatus,
    QueryResult,
    RecoveryReport,
    StoreMessage,
    StoreState,
)
from gantrymq.interfaces.transactions import EndTransaction, Outcome, TransactionService

__all__ = [
    "AllocationRegistry",
    "AllocationStrategy",
    "BitMaps",
    "Bounds",
    "Broker",
    "CleanReport",
    "Cleaning",
    "CommandRegistry",
    "ConfigRegistry",
    "Connection",
    "ConsumerHeartbeat",
    "DispatchEntry",
    "Dispatcher",
    "DispatcherRegistry",
    "Edge",
    "EndTransaction",
    "ExtUnit",
    "Figures",
    "FilterRegistry",
    "FilterType",
    "Flow",
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
    "Mornings",
    "MovedMessage",
    "NameServer",
    "NameServerKind",
    "NameServerRegistry",
    "OnlineClient",
    "OnlineGroup",
    "Outcome",
    "Placing",
    "PropertiesFilter",
    "PullAnswer",
    "PullRequest",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueReading",
    "RecoveryReport",
    "SendAnswer",
    "SendRequest",
    "Service",
    "ServiceRegistry",
    "Shown",
    "StoreContext",
    "StoreMessage",
    "StoreRegistry",
    "StoreState",
    "TransactionRegistry",
    "TransactionService",
]
