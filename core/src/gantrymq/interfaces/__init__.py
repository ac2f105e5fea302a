"""The small protocols that plugins implement or are given. What is in ``__all__`` is what plugins may import.

A hook (`gantrymq.hooks`) registers objects with these interfaces once, at start; the hot path calls the objects.
"""

from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.broker import Broker, Connection, Gate, Handler, Interceptor, Service
from gantrymq.interfaces.dispatch import DispatchEntry, Dispatcher
from gantrymq.interfaces.figures import Figures, Flow, Mornings, OnlineGroup
from gantrymq.interfaces.filtering import ExtUnit, FilterType, MessageFilter
from gantrymq.interfaces.registries import (
    AllocationRegistry,
    CommandRegistry,
    ConfigRegistry,
    DispatcherRegistry,
    FilterRegistry,
    GateRegistry,
    HandlerRegistry,
    InterceptorRegistry,
    ServiceRegistry,
    StoreContext,
    StoreRegistry,
    TransactionRegistry,
)
from gantrymq.interfaces.store import (
    Bounds,
    Cleaning,
    CleanReport,
    Edge,
    GetLimit,
    GetResult,
    GetStatus,
    MessageStore,
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
    "Bounds",
    "Broker",
    "CleanReport",
    "Cleaning",
    "CommandRegistry",
    "ConfigRegistry",
    "Connection",
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
    "Handler",
    "HandlerRegistry",
    "Interceptor",
    "InterceptorRegistry",
    "MessageFilter",
    "MessageStore",
    "Mornings",
    "OnlineGroup",
    "Outcome",
    "Placing",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "RecoveryReport",
    "Service",
    "ServiceRegistry",
    "StoreContext",
    "StoreMessage",
    "StoreRegistry",
    "StoreState",
    "TransactionRegistry",
    "TransactionService",
]
