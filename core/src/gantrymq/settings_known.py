"""RocketMQ's settings: their defaults, and the keys of features that are not implemented here.

An operator's settings file works unchanged: RocketMQ keys that GantryMQ does not use are accepted and reported once;
a key that would enable a missing feature stops the start. For keys declared by core or a plugin only the defaults
here are used, for comparison.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java,
common/.../namesrv/NamesrvConfig.java, remoting/.../netty/NettyServerConfig.java, auth/.../config/AuthConfig.java,
proxy/.../config/ProxyConfig.java.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable

from gantrymq.errors import install_command

Test = Callable[[str], bool]


def _read(file: str) -> dict[str, str]:
    """Read the ``key=default`` lines of a package data file."""
    text = (pkgutil.get_data(__package__, file) or b"").decode()
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


BROKER_DEFAULTS = _read("rocketmq_broker.properties")
NAME_SERVER_DEFAULTS = _read("rocketmq_namesrv.properties")


def _true(text: str) -> bool:
    return text.lower() == "true"


def _any(text: str) -> bool:
    return text != ""


def _several(text: str) -> bool:
    return text != "1"


def _other_than(*allowed: str) -> Test:
    return lambda text: text not in allowed


_REPLICATION = "replication needs a plugin that is not installed; install it with: " + install_command(
    "gantrymq-replication"
)
_SLAVES = "this use of slaves is not implemented in this version"
_CONTROLLER = "the controller is not implemented in this version"
_ACCESS = (
    "access control by RocketMQ's settings is not implemented; select an authorizer of a plugin (authorizer=NAME), or "
    "keep the ports inside a network you trust"
)
_ROCKSDB = "the RocksDB store is not implemented in this version"
_TLS = "TLS is set with tls.server.mode and the other tls.server settings, see docs/operations/tls.md"
_POP = "pop consumption needs a plugin that is not installed; install it with: " + install_command("gantrymq-pop")

_STORE = "need a store plugin that has them; install one with: " + install_command("gantrymq-storage-mmap")
_METRICS = "metrics need a plugin that is not installed; install it with: " + install_command("gantrymq-metrics")

NOT_BUILT: dict[str, tuple[Test, str]] = {
    "brokerRole": (_other_than("ASYNC_MASTER"), _REPLICATION),
    "brokerId": (_other_than("0"), _REPLICATION),
    "haMasterAddress": (_any, _REPLICATION),
    "inSyncReplicas": (_several, _REPLICATION),
    "minInSyncReplicas": (_several, _REPLICATION),
    "allAckInSyncStateSet": (_true, _REPLICATION),
    "enableAutoInSyncReplicas": (_true, _REPLICATION),
    "enableSlaveActingMaster": (_true, _REPLICATION),
    "enableRemoteEscape": (_true, _REPLICATION),
    "duplicationEnable": (_true, _SLAVES),
    "enableDLegerCommitLog": (_true, "DLedger is not implemented in this version; use the plain commit log"),
    "enableControllerMode": (_true, _REPLICATION),
    "enableControllerInNamesrv": (_true, _CONTROLLER),
    "controllerAddr": (_any, _REPLICATION),
    "fetchControllerAddrByDnsLookup": (_true, "controllers are not looked up in DNS; set controllerAddr"),
    "storeType": (
        _other_than("default"),
        "the RocksDB store is not implemented in this version; use storeType=default",
    ),
    "rocksdbCQDoubleWriteEnable": (_true, _ROCKSDB),
    "indexRocksDBEnable": (_true, _ROCKSDB),
    "timerRocksDBEnable": (_true, _ROCKSDB),
    "transRocksDBEnable": (_true, _ROCKSDB),
    "aclEnable": (_true, _ACCESS),
    "authenticationEnabled": (_true, _ACCESS),
    "authorizationEnabled": (_true, _ACCESS),
    "tlsEnable": (_true, _TLS),
    "tlsMode": (_other_than("disabled"), _TLS),
    "enableProxy": (_true, "the gRPC proxy is not implemented in this version; clients use the remoting protocol"),
    "enableBrokerContainer": (
        _true,
        "several brokers on one machine are processes here: gantrymq start --brokers N",
    ),
    "fetchNamesrvAddrByAddressServer": (_true, "address servers are not supported; set namesrvAddr"),
    "fetchNameSrvAddrByDnsLookup": (_true, "name servers are not looked up in DNS; set namesrvAddr"),
    "enableLmq": (_true, f"light queues {_STORE}"),
    "enableMultiDispatch": (_true, f"light queues {_STORE}"),
    "enableConsumeQueueExt": (_true, f"ext files {_STORE}"),
    "enabledAppendPropCRC": (_true, "the check sum property is not implemented in this version"),
    "forceVerifyPropCRC": (_true, "the check sum property is not implemented in this version"),
    "readUnCommitted": (_true, "messages are never visible before they are confirmed"),
    "defaultMessageRequestMode": (_other_than("PULL"), _POP),
    "popConsumerKVServiceEnable": (_true, _POP),
    "metricsExporterType": (_other_than("DISABLE", "0"), _METRICS),
    "clusterTest": (_true, "cluster test mode is not implemented"),
}


def refusal(key: str, text: str) -> str | None:
    """Return the reason why *key* must not have this value, or None."""
    test, sentence = NOT_BUILT.get(key, (None, ""))
    return sentence if test is not None and test(text.strip()) else None


def is_rocketmq_key(key: str) -> bool:
    """Return whether the broker or name server of RocketMQ has this key."""
    return key in BROKER_DEFAULTS or key in NAME_SERVER_DEFAULTS or key in NOT_BUILT
