"""Administration: one typed facade, `Admin`. The types of results are in the module of each topic.

    clusters       clusters and masters known to name servers, write permission
    topics         settings, routes and queues of topics
    groups         settings and subscriptions of consumer groups
    connections    connected clients, running info of a member, direct consumption by one member
    progress       progress of groups, in offsets and in time
    offsets        offsets of queues, and of groups in them
    resets         resetting the offsets of a group
    messages       by id, by unique id, by key
    configuration  settings of running servers; key-value table of name servers
    brokers        runtime info, counters, entries of queues, clean-up
    replication    slaves of a master, the connection of a slave, elections, epochs
    controllers    RocketMQ's controllers: leader, sets, elections, settings
    errors         error classes of administration

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java, client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from gantrymq.client.admin.brokers import CLEANINGS, BrokerCalls, Counter, CounterWindow, QueueEntries, QueueEntryInfo
from gantrymq.client.admin.configuration import ORDER_NAMESPACE
from gantrymq.client.admin.connections import (
    ConsumedDirectly,
    ConsumeStatus,
    GroupClient,
    GroupClients,
    ProcessQueueInfo,
    RunningInfo,
)
from gantrymq.client.admin.controllers import (
    BrokerSet,
    ControllerCalls,
    ControllerMetadata,
    ElectedMaster,
    SetMember,
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
from gantrymq.client.admin.messages import FOREVER_MS, KeyPage, MessageCalls
from gantrymq.client.admin.offsets import OffsetMove, OffsetReset, OffsetTarget
from gantrymq.client.admin.progress import QueueProgress, QueueTimes
from gantrymq.client.admin.replication import (
    BrokerEpochs,
    ConnectedSlave,
    ElectionState,
    Epoch,
    HaStatus,
    LostSlave,
    MasterConnection,
    ReplicationCalls,
)
from gantrymq.client.admin.resets import ResetCalls
from gantrymq.client.admin.topics import QueueStats

__all__ = [
    "CLEANINGS",
    "FOREVER_MS",
    "ORDER_NAMESPACE",
    "Admin",
    "AnswerUnreadable",
    "BrokerEpochs",
    "BrokerSet",
    "ClusterUnclear",
    "ConnectedSlave",
    "ConsumeStatus",
    "ConsumedDirectly",
    "ControllerMetadata",
    "Counter",
    "CounterWindow",
    "ElectedMaster",
    "ElectionState",
    "Epoch",
    "GroupClient",
    "GroupClients",
    "HaStatus",
    "KeyPage",
    "LostSlave",
    "MasterConnection",
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
    "SetMember",
]


class Admin(ResetCalls, MessageCalls, BrokerCalls, ReplicationCalls, ControllerCalls):
    """Administers a cluster; created by `gantrymq.client.Client.admin`.

    Calls with an *address* as first argument query that broker, ip:port of a master (see `masters`); calls with a
    `MessageQueue` query the master of its broker; all others query name servers, or every broker involved. Does not
    register with brokers, so it is not visible as a member of a group.
    """
