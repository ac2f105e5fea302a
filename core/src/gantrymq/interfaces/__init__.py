"""Small protocols that plugins implement or receive. Plugins may import the names in ``__all__``.

A hook (`gantrymq.hooks`) registers objects with these interfaces once at startup; the hot path calls the objects.
"""

from gantrymq.interfaces.access import Access, Authorizer, Credentials
from gantrymq.interfaces.allocation import AllocationStrategy
from gantrymq.interfaces.broker import Broker
from gantrymq.interfaces.client_channel import ClientChannel
from gantrymq.interfaces.clients import ClientConnection, Clients, ConsumerHeartbeat, Heartbeat, OnlineClient
from gantrymq.interfaces.consuming import Filters, HeldPulls, Offsets, QueueLocks
from gantrymq.interfaces.dispatch import DispatchEntry, Dispatcher
from gantrymq.interfaces.extension_points import Gate, Interceptor, Service
from gantrymq.interfaces.filtering import (
    BitMaps,
    ExtUnit,
    FilterType,
    MessageFilter,
    PropertiesFilter,
    SliceFilter,
)
from gantrymq.interfaces.lags import Backlog, GroupLag, LagReading, Lags, QueueLag
from gantrymq.interfaces.log import LogRange, RawLog, Segment
from gantrymq.interfaces.messages import Messages, QueueStatistics
from gantrymq.interfaces.metrics import (
    BrokerMetrics,
    MetricFamily,
    Metrics,
    MidnightCounts,
    OnlineGroup,
    Throughput,
)
from gantrymq.interfaces.name_servers import NameServer, NameServerKind
from gantrymq.interfaces.pop import InvisibleTime, PopAck, PopAnswer, PoppedBatch, PopRequest, PopService
from gantrymq.interfaces.pulling import LastPull, PullAnswer, PullRequest
from gantrymq.interfaces.registration import Registration
from gantrymq.interfaces.registries import (
    AllocationRegistry,
    AuthorizerContext,
    AuthorizerRegistry,
    CommandRegistry,
    ConfigRegistry,
    DispatcherRegistry,
    FilterRegistry,
    GateRegistry,
    InterceptorRegistry,
    NameServerRegistry,
    ServiceRegistry,
    StoreContext,
    StoreRegistry,
    TransactionRegistry,
)
from gantrymq.interfaces.roles import BrokerRole, MessageOutlet, ServiceState, StateTables, TableSnapshot
from gantrymq.interfaces.sending import (
    MessageRecall,
    RecallAnswer,
    RecallRequest,
    SendAnswer,
    SendBackRequest,
    SendRequest,
)
from gantrymq.interfaces.state_store import StateStore
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
    StoreFeature,
    StoreMessage,
    StoreState,
)
from gantrymq.interfaces.topics_and_groups import Groups, Topics
from gantrymq.interfaces.transactions import EndTransaction, Outcome, TransactionService

__all__ = [
    "Access",
    "AllocationRegistry",
    "AllocationStrategy",
    "Authorizer",
    "AuthorizerContext",
    "AuthorizerRegistry",
    "Backlog",
    "BitMaps",
    "BoundaryType",
    "Bounds",
    "Broker",
    "BrokerMetrics",
    "BrokerRole",
    "CleanReport",
    "Cleaning",
    "ClientChannel",
    "ClientConnection",
    "Clients",
    "CommandRegistry",
    "ConfigRegistry",
    "ConsumerHeartbeat",
    "Credentials",
    "DispatchEntry",
    "Dispatcher",
    "DispatcherRegistry",
    "EndTransaction",
    "ExtUnit",
    "FilterRegistry",
    "FilterType",
    "Filters",
    "Gate",
    "GateRegistry",
    "GetLimit",
    "GetResult",
    "GetStatus",
    "GroupLag",
    "Groups",
    "Heartbeat",
    "HeldPulls",
    "Interceptor",
    "InterceptorRegistry",
    "InvisibleTime",
    "LagReading",
    "Lags",
    "LastPull",
    "LogRange",
    "MessageFilter",
    "MessageOutlet",
    "MessageRecall",
    "MessageStore",
    "Messages",
    "MetricFamily",
    "Metrics",
    "MidnightCounts",
    "MovedMessage",
    "NameServer",
    "NameServerKind",
    "NameServerRegistry",
    "Offsets",
    "OnlineClient",
    "OnlineGroup",
    "Outcome",
    "PopAck",
    "PopAnswer",
    "PopRequest",
    "PopService",
    "PoppedBatch",
    "PropertiesFilter",
    "PullAnswer",
    "PullRequest",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueLag",
    "QueueLocks",
    "QueueStatistics",
    "QueueTargets",
    "RawLog",
    "RecallAnswer",
    "RecallRequest",
    "RecoveryReport",
    "Registration",
    "Segment",
    "SendAnswer",
    "SendBackRequest",
    "SendRequest",
    "Service",
    "ServiceRegistry",
    "ServiceState",
    "SliceFilter",
    "StateStore",
    "StateTables",
    "StoreContext",
    "StoreFeature",
    "StoreMessage",
    "StoreRegistry",
    "StoreState",
    "TableSnapshot",
    "Throughput",
    "Topics",
    "TransactionRegistry",
    "TransactionService",
]
