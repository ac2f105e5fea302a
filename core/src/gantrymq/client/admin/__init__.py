"""Administration: one typed facade, `Admin`. What its calls return stands beside each, by idea.

    clusters       name servers' clusters and masters, write permission
    topics         their settings, routes and queues
    groups         settings of consumer groups, and what they read
    connections    who is connected, what a member does, a message for one member
    progress       how far groups are, in offsets and in time
    offsets        of queues, and of groups in them
    resets         where a group goes on, set from outside
    messages       by id, by unique id, by key
    configuration  settings of servers that run; name servers' key-value table
    brokers        figures, counters, entries of queues, cleaning up
    problems       errors with a class of their own

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from gantrymq.client.admin.admin import Admin
from gantrymq.client.admin.brokers import CLEANINGS, Counter, CounterWindow, QueueEntries, QueueEntryInfo
from gantrymq.client.admin.configuration import ORDER_NAMESPACE
from gantrymq.client.admin.connections import (
    ConsumedDirectly,
    ConsumeStatus,
    GroupClient,
    GroupClients,
    ProcessQueueInfo,
    RunningInfo,
)
from gantrymq.client.admin.errors import (
    AnswerUnreadable,
    ClusterUnclear,
    NotABroker,
    NotANameServer,
    NothingCommitted,
    OffsetOutside,
    PartialReset,
    QueueUnknown,
    RequestNotServed,
)
from gantrymq.client.admin.messages import FOREVER_MS
from gantrymq.client.admin.offset_moves import OffsetMove, OffsetReset, OffsetTarget
from gantrymq.client.admin.progress import QueueProgress, QueueTimes
from gantrymq.client.admin.topics import QueueStats

__all__ = [
    "CLEANINGS",
    "FOREVER_MS",
    "ORDER_NAMESPACE",
    "Admin",
    "AnswerUnreadable",
    "ClusterUnclear",
    "ConsumeStatus",
    "ConsumedDirectly",
    "Counter",
    "CounterWindow",
    "GroupClient",
    "GroupClients",
    "NotABroker",
    "NotANameServer",
    "NothingCommitted",
    "OffsetMove",
    "OffsetOutside",
    "OffsetReset",
    "OffsetTarget",
    "PartialReset",
    "ProcessQueueInfo",
    "QueueEntries",
    "QueueEntryInfo",
    "QueueProgress",
    "QueueStats",
    "QueueTimes",
    "QueueUnknown",
    "RequestNotServed",
    "RunningInfo",
]
