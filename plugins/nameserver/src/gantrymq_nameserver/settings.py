"""The settings of a name server: RocketMQ's keys and defaults.

Keys that only tune Java's threads and buffers are accepted, stored and shown, so that an existing namesrv.conf works
unchanged. Keys that enable features that are not implemented are rejected at startup.

Source: apache/rocketmq common/.../namesrv/NamesrvConfig.java, remoting/.../netty/NettyServerConfig.java.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.plugin.network import ADMISSION_SETTINGS, INNER_CREDENTIALS, LISTENERS_SETTING
from gantrymq.plugin.settings import Kind, Setting, Value, home_folder


def name_server_settings(home: Path | None = None) -> list[Setting]:
    """Return the schema.

    Args:
        home: parent folder of ``namesrv/`` by default; None means the user's home folder. Without one, the two paths
            have no default.
    """
    home = home_folder() if home is None else home
    folder = None if home is None else home / "namesrv"
    return [
        *_addresses(),
        *_files(folder),
        *_routes(),
        *_lifetime(),
        *_not_built(),
        *_unused(),
        *_access(),
        INNER_CREDENTIALS,
        *ADMISSION_SETTINGS,
    ]


def _addresses() -> list[Setting]:
    return [
        Setting.number("listenPort", 9876, "port to listen on, 0 for a free one", at_least=0, at_most=65535),
        Setting.text("bindAddress", "0.0.0.0", "address to listen on; 127.0.0.1 for commands, unless it is set"),
        LISTENERS_SETTING,
    ]


def _files(folder: Path | None) -> list[Setting]:
    def path(name: str) -> str:
        return "" if folder is None else str(folder / name)

    return [
        Setting.text("rocketmqHome", "", "home folder of a RocketMQ installation; only shown"),
        Setting.text("kvConfigPath", path("kvConfig.json"), "file that keeps the key-value configuration"),
        Setting.text(
            "configStorePath",
            path("namesrv.properties"),
            "only shown: settings changed at runtime are lost when the name server stops",
        ),
        Setting.text(
            "configBlackList",
            "configBlackList;configStorePath;kvConfigPath",
            "keys, separated by ;, that cannot be changed at runtime",
        ),
    ]


def _routes() -> list[Setting]:
    return [
        Setting.flag("orderMessageEnable", False, "attach the order configuration to routes", runtime=True),
        Setting.flag(
            "returnOrderTopicConfigToBroker", True, "answer registrations with the order configuration", runtime=True
        ),
        Setting.flag(
            "supportActingMaster", False, "let the smallest slave stand in for a missing master in routes", runtime=True
        ),
        Setting.flag("enableAllTopicList", True, "answer requests for the list of all topics", runtime=True),
        Setting.flag("enableTopicList", True, "answer requests for topic lists by cluster and unit", runtime=True),
        Setting.flag(
            "deleteTopicWithBrokerRegistration",
            False,
            "drop topics of a broker that its registration no longer names",
            runtime=True,
        ),
    ]


def _access() -> list[Setting]:
    return [
        Setting.text(
            "authorizer", "", "authorizer of a plugin: registrations and changes need an account; empty: all may do all"
        ),
        Setting.text("accessPath", "", "folder with the files of the authorizer's users, which are only read"),
        Setting.text("brokerClusterName", "DefaultCluster", "cluster that requests for no cluster need permission on"),
        Setting.flag("routeAccess", False, "with an authorizer, routes need an account as well", runtime=True),
    ]


def _lifetime() -> list[Setting]:
    return [
        Setting.number(
            "scanNotActiveBrokerInterval",
            5000,
            "milliseconds between checks for silent brokers",
            at_least=10,
            runtime=True,
        ),
        Setting.number(
            "unRegisterBrokerQueueCapacity", 3000, "brokers that may wait to be unregistered", at_least=1, runtime=True
        ),
        Setting.flag(
            "notifyMinBrokerIdChanged",
            False,
            "tell the brokers of a name when its smallest broker id changes",
            runtime=True,
        ),
        Setting.flag(
            "needWaitForService",
            False,
            "refuse route lookups for the first waitSecondsForService after the start",
            runtime=True,
        ),
        Setting.number(
            "waitSecondsForService",
            45,
            "seconds that brokers get to register before routes are answered, with needWaitForService",
            at_least=0,
            runtime=True,
        ),
        Setting.number(
            "serverChannelMaxIdleTimeSeconds",
            120,
            "seconds without a byte after which a connection is closed",
            at_least=1,
        ),
        Setting.flag(
            "enableShutdownGracefully",
            False,
            "at the stop first answer newer clients with GO_AWAY for shutdownWaitTimeSeconds",
            runtime=True,
        ),
        Setting.number(
            "shutdownWaitTimeSeconds",
            30,
            "seconds to answer with GO_AWAY, with enableShutdownGracefully",
            at_least=0,
            runtime=True,
        ),
    ]


def _not_built() -> list[Setting]:
    cluster_test = "cluster test mode, which answers nothing but route lookups, is not built; leave it false"
    controller = "an embedded controller is not built; leave it false and run Java's controller as a process of its own"
    return [
        Setting.flag("clusterTest", False, "not built", not_built=lambda v: cluster_test if v else None),
        Setting.text("productEnvName", "center", "used by clusterTest only; only shown", runtime=True),
        Setting.flag("enableControllerInNamesrv", False, "not built", not_built=lambda v: controller if v else None),
    ]


def _unused() -> list[Setting]:
    """Settings of Java's threads and buffers."""
    numbers = {
        "clientRequestThreadPoolNums": 8,
        "clientRequestThreadPoolQueueCapacity": 50000,
        "defaultThreadPoolNums": 16,
        "defaultThreadPoolQueueCapacity": 10000,
        "serverAsyncSemaphoreValue": 64,
        "serverCallbackExecutorThreads": 0,
        "serverOnewaySemaphoreValue": 256,
        "serverSelectorThreads": 3,
        "serverSocketBacklog": 1024,
        "serverSocketRcvBufSize": 0,
        "serverSocketSndBufSize": 0,
        "serverWorkerThreads": 8,
        "writeBufferHighWaterMark": 0,
        "writeBufferLowWaterMark": 0,
    }
    flags = {
        "serverNettyWorkerGroupEnable": True,
        "serverPooledByteBufAllocatorEnable": True,
        "useEpollNativeSelector": False,
    }
    return [*(_shown(k, "number", v) for k, v in numbers.items()), *(_shown(k, "flag", v) for k, v in flags.items())]


def _shown(key: str, kind: Kind, default: Value) -> Setting:
    text = "threads or buffers of the Java server; only shown, one event loop serves all"
    return Setting(key, kind, default, text, runtime=True)
