"""Merging layers of texts into the effective settings.

    schema defaults  <  command defaults  <  settings file  <  environment variables  <  flags

A layer holds texts with their source. They are parsed only when the schema is known, because the schema depends on the
loaded plugins, which is a setting itself (``plugins``).

An operator's settings file works unchanged: RocketMQ keys that GantryMQ does not use are accepted and reported once;
a key that would enable a missing feature stops the start. RocketMQ's defaults are listed for that. For keys declared by
core or a plugin they are used for comparison only.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java,
common/.../namesrv/NamesrvConfig.java, remoting/.../netty/NettyServerConfig.java, auth/.../config/AuthConfig.java,
proxy/.../config/ProxyConfig.java.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError, install_command
from gantrymq.settings_file import EXAMPLE, Line, not_a_setting

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
_ACCESS = "access control needs a plugin that is not installed; install it with: "
_USERS = _ACCESS + install_command("gantrymq-access")
_ROCKSDB = "the RocksDB store is not implemented in this version"
_TLS = "TLS is set with tls.server.mode and the other tls.server settings, see docs/operations/tls.md"
_POP = "pop consumption needs a plugin that is not installed; install it with: " + install_command("gantrymq-pop")

_STORE = "need a store plugin that has them; install one with: " + install_command("gantrymq-storage-mmap")
_GRPC = (
    "brokers serve gRPC clients themselves, with listeners=sdk=grpc://0.0.0.0:8081 and the plugin gantrymq-grpc "
    "(docs/operations/from-proxy.md)"
)
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
    "aclEnable": (_true, _ACCESS + install_command("gantrymq-access-plain")),
    "authenticationEnabled": (_true, _USERS),
    "authorizationEnabled": (_true, _USERS),
    "tlsEnable": (_true, _TLS),
    "tlsMode": (_other_than("disabled"), _TLS),
    "enableProxy": (_true, f"there is no proxy: {_GRPC}"),
    "grpcServerPort": (_any, f"this setting of RocketMQ's proxy is part of a listener here: {_GRPC}"),
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


_VARIABLE = "environment variable {}"
_COMMENT = re.compile(r"\s#")
_QUOTED = re.compile(r"\s*([\"']).*\1\s*\Z", re.DOTALL)


class Given(NamedTuple):
    """The text given for a key."""

    text: str
    source: str  # its name in errors and ``config --explain``
    bare: bool = False  # a line of a file without = or :


class Layer(NamedTuple):
    """The entries of one source; later layers take precedence."""

    name: str
    entries: Mapping[str, Given]
    is_file: bool = False  # a settings file; without any known key it is rejected as another kind of file


class Loaded(NamedTuple):
    """Settings with notes for the operator."""

    settings: Settings
    notes: tuple[str, ...]  # one sentence each


def command_layer(name: str, values: Mapping[str, str]) -> Layer:
    """Return the layer with the defaults of a command."""
    return Layer(name, {key: Given(text, name) for key, text in values.items()})


def file_layer(name: str, lines: Iterable[Line]) -> Layer:
    """Return the layer of a settings file; the later of two equal keys takes precedence."""
    entries = {line.key: Given(line.value, f"{name} line {line.number}", line.bare) for line in lines}
    return Layer(name, entries, is_file=True)


def environment_layer(environ: Mapping[str, str], schema: Iterable[Setting]) -> Layer:
    """Return the layer of environment variables with the name of a setting; others are ignored."""
    keys = {setting.key for setting in schema}.union(NOT_BUILT)
    return Layer(
        "environment",
        {key: Given(environ[key], _VARIABLE.format(key)) for key in sorted(keys.intersection(environ))},
    )


def flag_layer(pairs: Sequence[str], options: Mapping[str, Given] | None = None) -> Layer:
    """Return the layer of ``--set key=value`` flags; *options* come from dedicated flags, with equal precedence.

    Raises:
        ConfigError: a pair without an equals sign.
    """
    entries = dict(options or {})
    for pair in pairs:
        key, mark, text = pair.partition("=")
        if not mark or not key.strip():
            raise ConfigError(f"--set {pair}: write key=value")
        entries[key.strip()] = Given(text, f"--set {key.strip()}")
    return Layer("flags", entries)


def strongest(layers: Sequence[Layer], key: str) -> Given | None:
    """Return the effective text for *key*, None if no layer has it."""
    return next((layer.entries[key] for layer in reversed(layers) if key in layer.entries), None)


def build_settings(schema: Iterable[Setting], layers: Sequence[Layer]) -> Loaded:
    """Parse the effective texts with the schema.

    An undeclared key gets a note: either as a key of RocketMQ that has no effect in GantryMQ, or as unknown, with the
    most similar key. A value with quotes around it or with what looks like a trailing comment gets a note too.

    Raises:
        ConfigError: a value is invalid, a key needs a feature that is not implemented, two keys select different
            values of a third, a file has no known key, or a line is not a setting.
    """
    settings = Settings(schema)
    notes: list[str] = []
    unused: list[str] = []
    for layer in layers:
        if layer.is_file and layer.entries and not any(map(partial(_known, settings), layer.entries)):
            first = next(iter(layer.entries))
            raise ConfigError(
                f"{layer.name} has no setting that this server knows; it begins with {first[:40]!r}"
                f"{nearest(first, settings.schema)}, a settings file has lines such as {EXAMPLE}"
            )
    for key in dict.fromkeys(key for layer in layers for key in layer.entries):
        given = strongest(layers, key)
        assert given is not None
        if key in settings.schema:
            settings.set(key, given.text, given.source)
            if _COMMENT.search(given.text):
                notes.append(f"{given.source}: what follows # is part of {key}; give a comment a line of its own")
            elif _QUOTED.match(given.text):
                notes.append(f"{given.source}: the quotes are part of {key}; leave them out")
            # A plain lower-case word, such as "store", may be set for another program.
            if given.source == _VARIABLE.format(key) and key.isalpha() and key.islower():
                notes.append(f"{given.source} is in force: {key}={given.text}; unset it if it is not meant for this")
        elif (sentence := refusal(key, given.text)) is not None:
            raise ConfigError(f"{given.source}: {key}={given.text.strip()}: {sentence}")
        elif is_rocketmq_key(key):
            unused.append(key)
        elif given.bare:
            raise not_a_setting(given.source, key)
        else:
            notes.append(f"{given.source}: there is no setting {key}; it is ignored{nearest(key, settings.schema)}")
    settings.apply_selections()
    if unused:
        notes.append(f"these settings of RocketMQ have no effect here: {', '.join(sorted(unused))}")
    return Loaded(settings, tuple(notes))


def runtime_changes(settings: Settings, given: Mapping[str, str], where: str, server: str, file: str) -> dict[str, str]:
    """Return the settings in *given* that a running server can change; keys of RocketMQ without effect are left out.

    Args:
        given: texts by key; nothing is changed here.
        where: the request, for errors.
        server: "broker" or "name server", for errors.
        file: its settings file, for errors.

    Raises:
        ConfigError: a key is unknown, read at the start only, or needs a feature that is not implemented, or a value is
            invalid.
    """
    found: dict[str, str] = {}
    for key, value in given.items():
        setting = settings.schema.get(key)
        if setting is None:
            if (problem := refusal(key, value)) is not None:
                raise ConfigError(f"{where}: {key}={value}: {problem}")
            if is_rocketmq_key(key):
                continue
            lists = f"gantrymq {server.replace(' ', '')} config get lists all settings"
            raise ConfigError(f"{key} is not a setting of this {server}{nearest(key, settings.schema)}; {lists}")
        # Before the value, because correcting it would not help; what is not built says so instead.
        if not setting.runtime and setting.not_built is None:
            raise ConfigError(f"{key} is read at the start only; set it in {file} and start the {server} again")
        least, parsed = setting.running_at_least, setting.parse(value, where)
        if least is not None and isinstance(parsed, int) and parsed < least:
            raise ConfigError(
                f"{where}: {key}={parsed} is below {least}, the smallest value that a running {server} takes; set it "
                f"in {file} and start the {server} again"
            )
        found[key] = value
    return found


def _known(settings: Settings, key: str) -> bool:
    return key in settings.schema or key in NOT_BUILT or is_rocketmq_key(key)


def nearest(key: str, known: Iterable[str]) -> str:
    """Return `` (did you mean ...?)`` if the key resembles a known one, else an empty string."""
    by_lower = {name.lower(): name for name in known}
    from difflib import get_close_matches  # only for an error

    near = get_close_matches(key.lower(), by_lower, 1, cutoff=0.75)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""
