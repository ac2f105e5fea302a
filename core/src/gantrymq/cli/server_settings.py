"""Settings of servers: the schema of core and plugins, and the layers of values, with increasing precedence:

defaults  <  file of tls.config.file  <  defaults of the command  <  file of -c  <  environment  <  --set and options
such as --port  <  own file of one of several brokers

RocketMQ's servers listen on all addresses by default. Servers started by commands listen on 127.0.0.1 unless
bindAddress is set or, for a broker, brokerIP1 is an address that other machines can reach. `exposure_notes` warns of
servers that other machines can reach without access control, which is TLS with client certificates
(``tls.server.need.client.auth=require``), or for a broker an authorizer of a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final, NamedTuple

import attrs

from gantrymq.broker.advertised import ANY_ADDRESSES
from gantrymq.commands.output import warn
from gantrymq.config import NO_HOME, Setting, Settings, home_folder
from gantrymq.errors import ConfigError, PluginError, install_command
from gantrymq.interfaces import NameServerKind
from gantrymq.model.hosts import is_loopback
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.remoting.listeners import LISTENERS_SETTING, listeners_of
from gantrymq.remoting.tls_settings import tls_file_layer
from gantrymq.settings_file import read_settings_file
from gantrymq.settings_load import (
    Given,
    Layer,
    build_settings,
    command_layer,
    environment_layer,
    file_layer,
    flag_layer,
    strongest,
)
from gantrymq.world import World

LOOPBACK: Final = "127.0.0.1"
BROKER_CLOSED: Final = "neither bindAddress nor brokerIP1 is set"  # source of the default address
NAME_SERVER: Final = "name server"
_ROUTES: Final = "read all routes, and register or remove brokers, so that clients go elsewhere"
NAME_SERVER_CLOSED: Final = "bindAddress is not set"


def exposure_notes(servers: Iterable[tuple[str, Settings]]) -> tuple[str, ...]:
    """Return a sentence for each server that listens only on loopback by default, and for each address that other
    machines can reach without access control. *servers*: names ("name server", "broker") and settings.
    """
    servers = list(servers)
    notes = list(dict.fromkeys(_closed(name, settings) for name, settings in servers))  # several brokers are alike
    exposed: dict[str, dict[str, None]] = {}  # host to names, each once
    for name, settings in servers:
        for host, tls in _listens_on(settings).items():
            if not is_loopback(host) and not _controls_access(settings, tls):
                exposed.setdefault(host, {})[name] = None
    notes += [_sentence(host, list(names)) for host, names in exposed.items()]
    return tuple(note for note in notes if note)


def _closed(name: str, settings: Settings) -> str:
    why = settings.source("bindAddress")
    if why not in (BROKER_CLOSED, NAME_SERVER_CLOSED) or not all(map(is_loopback, _listens_on(settings))):
        return ""
    also = ", and brokerIP1 to the address that clients reach" if why == BROKER_CLOSED else ""
    return (
        f"the {name} listens on {LOOPBACK}, this machine alone: {why}. To let others in, set bindAddress=0.0.0.0 or "
        f"one address of this machine{also} (in the settings file, the environment or with --set)"
    )


def _controls_access(settings: Settings, tls: bool) -> bool:
    """Return whether a server identifies clients; *tls*: its listeners require TLS."""
    if "authorizer" in settings.schema and settings.text("authorizer"):
        return True
    return tls and settings.text("tls.server.need.client.auth") == "require"


def _listens_on(settings: Settings) -> dict[str, bool]:
    """Return the hosts on which a server listens, and whether all its listeners there require TLS."""
    enforcing = settings.text("tls.server.mode") == "enforcing"
    hosts = {settings.text("bindAddress"): enforcing}
    for each in listeners_of(settings) if LISTENERS_SETTING.key in settings.schema else ():
        hosts[each.host] = hosts.get(each.host, True) and (each.tls or enforcing)
    return hosts


def _sentence(host: str, names: list[str]) -> str:
    where = f"{host or '0.0.0.0'}, which is every address of this machine" if host in ANY_ADDRESSES else host
    verb = "listen" if len(names) > 1 else "listens"
    return (
        f"the {' and the '.join(names)} {verb} on {where}, without access control: anyone who can reach it can "
        f"{_ROUTES if names == [NAME_SERVER] else 'read, send and delete everything'}. Set bindAddress to an address "
        "that only your clients reach (127.0.0.1: this machine alone), restrict access with a firewall, or require "
        "client certificates (docs/operations/tls.md)"
    )


NAME_SERVER_TO_INSTALL = "gantrymq-nameserver"
_NAME_SERVERS = ("gantry_register_name_servers",)
_TO_SET = {"storePathRootDir": "--store DIR sets it"}


@attrs.frozen
class ServerArguments:
    """The settings given on the command line."""

    command: str  # e.g. "gantrymq start"; the source of the command's defaults
    file: Path | None = None  # -c
    pairs: tuple[str, ...] = ()  # --set key=value
    options: Mapping[str, tuple[str, object]] = attrs.field(factory=dict)  # key to option and value (None: not given)
    defaults: Mapping[str, str] = attrs.field(factory=dict)  # defaults of the command
    closed: str = BROKER_CLOSED  # shown as the source of bindAddress if it defaults to the loopback address
    own_file: Path | None = None  # of one of several brokers; overrides the settings common to all of them


class BrokerSettings(NamedTuple):
    """The arguments for creating a broker."""

    settings: Settings
    plugins: Plugins
    notes: tuple[str, ...]


class NameServerSettings(NamedTuple):
    """The arguments for creating a name server."""

    settings: Settings
    kind: NameServerKind
    notes: tuple[str, ...]


def broker_settings(world: World, arguments: ServerArguments, *, strict: bool = True) -> BrokerSettings:
    """Load the plugins and read a broker's settings.

    Args:
        strict: see `load_plugins`.

    Raises:
        ConfigError: a setting is invalid or needs a feature that is not implemented.
        PluginError: with *strict*, a plugin is broken.
    """
    from gantrymq.broker.settings import SCHEMA

    home = home_folder()
    defaults = {"storePathRootDir": str(home / "store")} if home is not None else {}
    if name_servers := world.environ.get("NAMESRV_ADDR"):
        defaults["namesrvAddr"] = name_servers
    layers = _layers(world, arguments, defaults, SCHEMA, arguments.closed)
    allowed = strongest(layers, "plugins") or Given("", "")
    plugins = load_plugins(allowed.text, allowed.source, strict=strict, reserved=SCHEMA)
    schema = [*SCHEMA, *plugins.config]
    layers[3] = environment_layer(world.environ, schema)  # now including the keys declared by plugins
    settings, notes = build_settings(schema, layers)
    _check_filled(settings, "storePathRootDir")
    settings.flags = {key: flag for key, (flag, _) in arguments.options.items()}
    return BrokerSettings(settings, plugins, notes)


def name_server_settings(
    world: World, arguments: ServerArguments, *, beside: Settings | None = None
) -> NameServerSettings:
    """Read a name server's settings.

    Args:
        beside: settings of a broker in the same process; its explicit ones of TLS and proxies are for both.

    Raises:
        ConfigError: a setting is invalid or needs a feature that is not implemented.
        PluginError: see `name_server_kind`.
    """
    kind = name_server_kind()
    schema = kind.settings()
    if beside is not None:
        shared = _local_options(beside, {setting.key for setting in schema})
        arguments = attrs.evolve(arguments, options={**shared, **arguments.options})
    defaults = {"configStorePath": str(arguments.file.absolute())} if arguments.file is not None else {}
    settings, notes = build_settings(schema, _layers(world, arguments, defaults, schema, NAME_SERVER_CLOSED))
    _check_filled(settings, "kvConfigPath")
    settings.flags = {key: flag for key, (flag, _) in arguments.options.items()}
    return NameServerSettings(settings, kind, notes)


def name_server_keys() -> frozenset[str]:
    """Return the setting keys that only a name server has. Raises PluginError like `name_server_kind`."""
    from gantrymq.broker.settings import SCHEMA

    declared = name_server_kind().settings()
    return frozenset(setting.key for setting in declared).difference(setting.key for setting in SCHEMA)


def store_root(settings: Settings) -> Path:
    """Return the absolute path of the broker's store. Raises ConfigError like `path_of`."""
    return path_of(settings, "storePathRootDir")


def path_of(settings: Settings, key: str) -> Path:
    """Return the absolute path that *key* sets.

    Raises:
        ConfigError: the path begins with ``~`` and there is no such home folder.
    """
    try:
        return Path(settings.text(key)).expanduser().absolute()
    except RuntimeError:
        text = settings.text(key)
        raise ConfigError(f"{settings.source(key)}: {key} is {text}, but {NO_HOME}; set a full path") from None


def _local_options(of_broker: Settings, keys: Set[str]) -> dict[str, tuple[str, object]]:
    """Return the broker's explicit settings of TLS and proxies that a name server has, too."""
    local = {key for key, setting in of_broker.schema.items() if setting.local and key in keys}
    given = {key: source for key in sorted(local) if (source := of_broker.source(key)) != "default"}
    values = of_broker.as_dict(secrets=True)
    return {key: (source, str(values[key]).strip()) for key, source in given.items()}


def _check_filled(settings: Settings, *keys: str) -> None:
    """Raise ConfigError if a path is empty, because an empty path means the current folder."""
    for key in keys:
        if key in settings.schema and not settings.text(key):
            if settings.source(key) == "default":  # of the user's home folder
                raise ConfigError(
                    f"{key} has no default because {NO_HOME}; {_TO_SET.get(key, f'--set {key}=PATH sets it')}"
                )
            raise ConfigError(f"{settings.source(key)}: {key} is empty; set a path, or omit it for the default")


def _layers(
    world: World, arguments: ServerArguments, defaults: Mapping[str, str], schema: Iterable[Setting], closed: str
) -> list[Layer]:
    """Return the layers in order of increasing precedence; the environment is at index 3.

    The command's layer sets bindAddress to the loopback address, unless brokerIP1 is an address that other machines can
    reach. The source of that value is brokerIP1 if it is set, otherwise *closed*.
    """
    lines = read_settings_file(world.files, arguments.file) if arguments.file is not None else []
    given = {key: Given(str(value), flag) for key, (flag, value) in arguments.options.items() if value is not None}
    layers = [
        command_layer(arguments.command, {**defaults, **arguments.defaults}),
        file_layer(str(arguments.file), lines),
        environment_layer(world.environ, schema),
        flag_layer(arguments.pairs, given),
    ]
    if arguments.own_file is not None:
        layers.append(file_layer(str(arguments.own_file), read_settings_file(world.files, arguments.own_file)))
    advertised = strongest(layers, "brokerIP1")
    address = "" if advertised is None else advertised.text.strip()
    if (not address or is_loopback(address)) and "bindAddress" not in layers[0].entries:
        given_by = f"brokerIP1={address}" if address else closed
        layers[0] = layers[0]._replace(entries={**layers[0].entries, "bindAddress": Given(LOOPBACK, given_by)})
    return [tls_file_layer(world.files, strongest(layers, "tls.config.file")), *layers]


def name_server_kind() -> NameServerKind:
    """Return the name server of `NAME_SERVER_TO_INSTALL`, or of another plugin if that is not installed.

    Only that plugin is loaded, so that ``gantrymq nameserver`` starts fast; the setting ``plugins``
    applies only to the broker.

    Raises:
        PluginError: no installed plugin offers a name server, several of them do, or `NAME_SERVER_TO_INSTALL`
            is broken.
    """
    loaded = load_plugins(only_hooks=_NAME_SERVERS, only_distribution=NAME_SERVER_TO_INSTALL)
    if not loaded.name_servers:
        loaded = load_plugins(strict=False, only_hooks=_NAME_SERVERS)
        for problem in loaded.problems:
            warn(problem)
    kinds = list(loaded.name_servers.values())
    if not kinds:
        raise PluginError(
            f"no name server plugin is installed; install one with: {install_command(NAME_SERVER_TO_INSTALL)}"
        )
    if len(kinds) > 1:
        names = ", ".join(kind.name for kind in kinds)
        raise PluginError(f"plugins offer several name servers ({names}); uninstall all but one of them")
    return kinds[0]
