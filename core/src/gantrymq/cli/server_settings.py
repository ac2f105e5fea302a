"""Settings of servers: the schema of core and plugins, and the layers of values, with increasing precedence:

defaults  <  file of tls.config.file  <  defaults of the command  <  file of -c  <  environment  <  --set and options
such as --port  <  own file of one of several brokers

RocketMQ's servers listen on all addresses by default. Servers started by commands listen on 127.0.0.1 unless
bindAddress is set or, for a broker, brokerIP1 is an address that other machines can reach. `exposure_notes` warns of
servers that other machines can reach without access control, which is TLS with client certificates
(``tls.server.need.client.auth=require``), or for a broker an authorizer of a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final, NamedTuple

import attrs

from gantrymq.broker.exposure import exposures, listens_on
from gantrymq.commands.output import warn
from gantrymq.config import NO_HOME, Setting, Settings, home_folder
from gantrymq.errors import ConfigError, PluginError, install_command
from gantrymq.interfaces import NameServerKind
from gantrymq.model.hosts import is_loopback
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.remoting.inner_client import INNER_CREDENTIALS
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
from gantrymq.world import FileReader, World

LOOPBACK: Final = "127.0.0.1"
BROKER_CLOSED: Final = "neither bindAddress nor brokerIP1 is set"  # source of the default address
NAME_SERVER_CLOSED: Final = "bindAddress is not set"


def exposure_notes(servers: Iterable[tuple[str, Settings]]) -> tuple[str, ...]:
    """Return a sentence for each server that listens only on loopback by default, and for each address that other
    machines can reach without access control. *servers*: names ("name server", "broker") and settings.
    """
    servers = list(servers)
    notes = list(dict.fromkeys(_closed(name, settings) for name, settings in servers))  # several brokers are alike
    return tuple(note for note in [*notes, *exposures(servers)] if note)


def _closed(name: str, settings: Settings) -> str:
    why = settings.source("bindAddress")
    if why not in (BROKER_CLOSED, NAME_SERVER_CLOSED) or not all(map(is_loopback, listens_on(settings))):
        return ""
    also = ", and brokerIP1 to the address that clients reach" if why == BROKER_CLOSED else ""
    return (
        f"the {name} listens on {LOOPBACK}, this machine alone: {why}. To let others in, set bindAddress=0.0.0.0 or "
        f"one address of this machine{also} (in the settings file, the environment or with --set)"
    )


NAME_SERVER_TO_INSTALL = "gantrymq-nameserver"
_NAME_SERVERS = ("gantry_register_name_servers",)
_OF_AUTHORIZERS: Final = ("gantry_register_config", "gantry_register_authorizers")
_AUTHORIZER: Final = "authorizer"
_SELECTING: Final = (_AUTHORIZER, "authenticationEnabled", "authorizationEnabled", "aclEnable")
_OTHERS: Final = 0o007  # permission bits
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
    plugins: Plugins = Plugins()  # with authorizers; none without access control


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
    _check_private(world.files, schema, layers)
    settings, notes = build_settings(schema, layers)
    _check_filled(settings, "storePathRootDir")
    settings.flags = {key: flag for key, (flag, _) in arguments.options.items()}
    return BrokerSettings(settings, plugins, notes)


def name_server_settings(
    world: World, arguments: ServerArguments, *, beside: Settings | None = None
) -> NameServerSettings:
    """Read a name server's settings.

    Args:
        beside: settings of a broker in the same process; its explicit ones of TLS and proxies are for both, and its
            access control if it has an account for requests to other servers.

    Raises:
        ConfigError: a setting is invalid or needs a feature that is not implemented.
        PluginError: see `name_server_kind`; or access control is set, and a plugin is broken.
    """
    kind = name_server_kind()
    schema, plugins = list(kind.settings()), Plugins()
    keys = {setting.key for setting in schema}
    if beside is not None:
        shared = _local_options(beside, keys) | (_access_options(beside) if _AUTHORIZER in keys else {})
        arguments = attrs.evolve(arguments, options={**shared, **arguments.options})
    defaults = {"configStorePath": str(arguments.file.absolute())} if arguments.file is not None else {}
    layers = _layers(world, arguments, defaults, schema, NAME_SERVER_CLOSED)
    if _AUTHORIZER in keys and _controls(layers):
        plugins = load_plugins(only_hooks=_OF_AUTHORIZERS, reserved=schema)
        schema += _settings_of_authorizers(plugins)
        layers[3] = environment_layer(world.environ, schema)
    _check_private(world.files, schema, layers)
    settings, notes = build_settings(schema, layers)
    _check_filled(settings, "kvConfigPath")
    settings.flags = {key: flag for key, (flag, _) in arguments.options.items()}
    return NameServerSettings(settings, kind, notes, plugins)


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


def _controls(layers: Sequence[Layer]) -> bool:
    """Return whether settings of a name server select an authorizer."""
    given = (strongest(layers, key) for key in _SELECTING)
    return any(each is not None and each.text.strip().lower() not in ("", "false") for each in given)


def _settings_of_authorizers(plugins: Plugins) -> list[Setting]:
    """Return the settings of the plugins that register an authorizer."""
    found = [info.registers for info in plugins.infos if any(each.startswith("authorizer ") for each in info.registers)]
    return [each for each in plugins.config if any(f"setting {each.key}" in registers for registers in found)]


def _access_options(of_broker: Settings) -> dict[str, tuple[str, object]]:
    """Return the access control of a broker for the name server in its process.

    There is none if the broker has no account for its own requests, because it could not register.
    """
    if not of_broker.text(_AUTHORIZER) or not of_broker.text(INNER_CREDENTIALS.key):
        return {}
    keys = {_AUTHORIZER, "brokerClusterName"}
    keys |= {
        setting.key for setting in _settings_of_authorizers(load_plugins(strict=False, only_hooks=_OF_AUTHORIZERS))
    }
    values = of_broker.as_dict(secrets=True)
    given = {key: of_broker.source(key) for key in sorted(keys.intersection(values))}
    return {key: (source, str(values[key]).strip()) for key, source in given.items() if source != "default"}


def _check_filled(settings: Settings, *keys: str) -> None:
    """Raise ConfigError if a path is empty, because an empty path means the current folder."""
    for key in keys:
        if key in settings.schema and not settings.text(key):
            if settings.source(key) == "default":  # of the user's home folder
                raise ConfigError(
                    f"{key} has no default because {NO_HOME}; {_TO_SET.get(key, f'--set {key}=PATH sets it')}"
                )
            raise ConfigError(f"{settings.source(key)}: {key} is empty; set a path, or omit it for the default")


def _check_private(files: FileReader, schema: Iterable[Setting], layers: Iterable[Layer]) -> None:
    """Raise ConfigError if a settings file with a secret of accounts is accessible to other users of the machine."""
    keys = {setting.key for setting in schema if setting.private}
    for layer in layers:
        for key in sorted(keys.intersection(layer.entries)) if layer.is_file else ():
            given, status = layer.entries[key], files.stat(Path(layer.name))
            if given.text.strip() and status is not None and status.mode & _OTHERS:
                raise ConfigError(
                    f"{given.source}: {key} is a secret, and other users of this machine may read or change the file "
                    f"(mode {status.mode:04o}); run: chmod o= {layer.name}"
                )


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
