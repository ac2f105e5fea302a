"""The broker's own settings, under RocketMQ's key names.

The store plugin declares the store's settings. The help texts mention defaults that differ from RocketMQ's.

Source: apache/rocketmq common/.../BrokerConfig.java, remoting/.../netty/NettyServerConfig.java.
"""

from __future__ import annotations

from typing import Any, Final

from gantrymq.config import Setting, Settings
from gantrymq.model.hosts import split_addresses
from gantrymq.model.json_members import INT32
from gantrymq.remoting.admission import ADMISSION_SETTINGS
from gantrymq.remoting.inner_client import INNER_CREDENTIALS
from gantrymq.remoting.listeners import LISTENER_ACCESS_SETTING, LISTENERS_SETTING


def name_servers_of(settings: Settings) -> list[str]:
    """Return the addresses in ``namesrvAddr``."""
    return split_addresses(settings.text("namesrvAddr"))


MOST_QUEUES: Final = 65_536  # absolute limit for a topic
_QUEUES: Final[dict[str, Any]] = {"at_least": 1, "at_most": MOST_QUEUES, "runtime": True}

SCHEMA: tuple[Setting, ...] = (
    Setting.text("brokerName", "", "Name of this broker in routes; empty means the host's name."),
    Setting.text("brokerClusterName", "DefaultCluster", "Cluster this broker belongs to."),
    Setting.text("namesrvAddr", "", "Name servers to register with, host:port separated by semicolons."),
    Setting.text(
        "brokerIP1",
        "",
        "IP address or host name in routes, and its IP address in message ids; empty means bindAddress, or this host's "
        "own.",
    ),
    Setting.text(
        "advertisedAddresses",
        "",
        "Addresses of listeners in routes, NAME=HOST:PORT separated by commas; by default brokerIP1 with the port of "
        "each (GantryMQ's own).",
    ),
    Setting.text(
        "bindAddress", "0.0.0.0", "Address to listen on; 127.0.0.1 for commands, unless this or brokerIP1 is set."
    ),
    Setting.number("listenPort", 10911, "Port to listen on; 0 picks a free one.", at_least=0, at_most=65535),
    LISTENERS_SETTING,
    LISTENER_ACCESS_SETTING,
    Setting.flag("fastPortEnable", True, "Also listen on listenPort - 2, for clients with vipChannelEnabled=true."),
    Setting.number("brokerPermission", 6, "2 write, 4 read, 6 both.", at_least=0, at_most=7, runtime=True),
    Setting.flag(
        "clearRetryTopicWhenDeleteTopic",
        True,
        "Delete the retry topics of groups that popped a topic together with it.",
        runtime=True,
    ),
    Setting.flag(
        "autoCreateTopicEnable", True, "Create an unknown topic from TBW102 when a message arrives.", runtime=True
    ),
    Setting.number("defaultTopicQueueNums", 8, "Queues of TBW102, and so of automatic topics.", **_QUEUES),
    Setting.number("maxTopicQueueNums", 4096, "Most queues of a new topic (GantryMQ's own).", **_QUEUES),
    Setting.number("maxRetryQueueNums", 256, "Most retryQueueNums of a group (GantryMQ's own).", **_QUEUES),
    Setting.number(
        "maxRetryTimes",
        10_000,
        "Most retryMaxTimes of a group (GantryMQ's own).",
        at_least=0,
        at_most=INT32[1],
        runtime=True,
    ),
    Setting.flag("clusterTopicEnable", True, "Let clients use the topic named after the cluster."),
    Setting.flag("brokerTopicEnable", True, "Let clients use the topic named after the broker."),
    Setting.flag("autoCreateSubscriptionGroup", True, "Create an unknown consumer group on first use.", runtime=True),
    Setting.flag("enableMixedMessageType", False, "Allow topics with message.type MIXED.", runtime=True),
    Setting.flag("traceTopicEnable", False, "Create the trace topic at start."),
    Setting.text("msgTraceTopicName", "RMQ_SYS_TRACE_TOPIC", "Name of the trace topic."),
    Setting.flag("traceOn", True, "Enable message tracing in clients that support it.", runtime=True),
    Setting.text("regionId", "DefaultRegion", "Region stored with every message."),
    Setting.number(
        "startAcceptSendRequestTimeStamp", 0, "Refuse sends before this time, ms since the epoch.", at_least=0
    ),
    Setting.flag("rejectTransactionMessage", False, "Refuse transactional sends.", runtime=True),
    Setting.flag("longPollingEnable", True, "Hold a pull without messages as long as it allows.", runtime=True),
    Setting.number(
        "shortPollingTimeMills", 1000, "Hold time if longPollingEnable=false, ms.", at_least=1, runtime=True
    ),
    Setting.flag(
        "notifyConsumerIdsChangedEnable", True, "Notify members of changes of a consumer group.", runtime=True
    ),
    Setting.flag("litePullMessageEnable", True, "Serve lite pull (361).", runtime=True),
    Setting.number("defaultQueryMaxNum", 32, "Most messages of one query by unique key.", at_least=1, runtime=True),
    Setting.number(
        "channelExpiredTimeout", 120000, "Remove clients without a heartbeat for this long, ms.", at_least=1000
    ),
    Setting.number("flushConsumerOffsetInterval", 5000, "Save committed offsets this often, ms.", at_least=100),
    Setting.flag(
        "useServerSideResetOffset",
        True,
        "Store reset offsets and return them to pulls; false notifies the group's members instead.",
        runtime=True,
    ),
    Setting.text(
        "configBlackList",
        "configBlackList;brokerConfigPath",
        "Keys that no request may change, separated by semicolons.",
    ),
    Setting.number("consumerOffsetUpdateVersionStep", 500, "Commits per increment of the data version.", at_least=1),
    Setting.number("registerNameServerPeriod", 30000, "Register this often, ms (10,000 to 60,000).", at_least=1),
    Setting.number("registerBrokerTimeoutMills", 24000, "Timeout of a registration, ms.", at_least=100),
    Setting.flag(
        "slaveReadEnable",
        False,
        "Let consumers pull old messages from slaves; set it on master and slaves.",
        runtime=True,
    ),
    Setting.flag(
        "enablePropertyFilter",
        True,
        "Allow SQL92 subscriptions where a plugin serves them (RocketMQ's default is false).",
        runtime=True,
    ),
    Setting.number(
        "maxMessageSize", 4194304, "Largest stored body, bytes.", at_least=1024, at_most=16 * 1024 * 1024, runtime=True
    ),
    Setting.number(
        "maxBatchMessages",
        16_384,
        "Most messages of one batch, which are stored in one step (GantryMQ's own).",
        at_least=1,
        runtime=True,
    ),
    Setting.number("serverChannelMaxIdleTimeSeconds", 120, "Close a connection idle for this long, s.", at_least=1),
    Setting.number("maxConnections", 10000, "Most connections at a time (GantryMQ's own).", at_least=1),
    Setting.number(
        "busyPollMicros",
        300,
        "Stay awake for so long after a request of a client that asks one thing after the other, us; 0 saves the "
        "processor time (GantryMQ's own).",
        at_least=0,
        at_most=1000,
    ),
    Setting.text(
        "flushDiskType",
        "SYNC_FLUSH",
        "SYNC_FLUSH acknowledges after the disk has the message, ASYNC_FLUSH before (RocketMQ's default).",
        choices=("SYNC_FLUSH", "ASYNC_FLUSH"),
    ),
    Setting.text("storePathRootDir", "", "Folder of the store; by default store in the user's home."),
    Setting.number("syncFlushTimeout", 5000, "Answer FLUSH_DISK_TIMEOUT when a flush takes longer, ms.", at_least=1),
    Setting.text("store", "mmap", "Store plugin for the messages (GantryMQ's own)."),
    Setting.number(
        "transactionCheckInterval", 30_000, "Milliseconds between checks of undecided transactions.", at_least=1
    ),
    Setting.text(
        "authorizer", "", "Authorizer that identifies clients and decides what they may do; empty: all may do all."
    ),
    Setting.text("transaction", "", "Transaction service; empty: rocketmq, or the only one installed."),
    Setting.text("plugins", "", "Entry points to load, separated by commas; empty means all that are installed."),
    INNER_CREDENTIALS,
    *ADMISSION_SETTINGS,
)
