"""Settings of several brokers on one machine: their differences, and checks before the first start.

Broker number i of the brokers, from 0, gets

    brokerName        NAME-i, where NAME is the common brokerName, or "broker"
    storePathRootDir  a folder with its name, inside the common one
    ports             the common port plus 10 i, such as 10911, 10921, 10931, also in listeners; 0 remains a free one
    consoleListen     the common one for broker 0, none for the others

unless its own file sets the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import attrs

from gantrymq.broker.advertised import ANY_ADDRESSES
from gantrymq.broker.ports import FAST_BELOW
from gantrymq.cli.server_settings import ServerArguments, broker_settings, path_of, store_root
from gantrymq.config import Settings, free_port_keys
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, parse_address
from gantrymq.remoting.listeners import NamedListener, listeners_of
from gantrymq.settings_file import read_settings_file
from gantrymq.world import FileReader, World

PORT_STEP: Final = 10  # the fast port is listenPort - 2, RocketMQ's replication port listenPort + 1
CONSOLE: Final = "consoleListen"  # setting of gantrymq-console
_ELECTED: Final = "enableControllerMode"
_HA_PORT: Final = "haListenPort"  # setting of gantrymq-replication
_LISTENERS: Final = "listeners"
_ADVERTISED: Final = "advertisedAddresses"  # of a single broker
_PATHS: Final = "storePath"  # start of the keys of folders


@attrs.frozen
class PlannedBroker:
    """A broker that is not running yet."""

    arguments: ServerArguments
    forced: dict[str, tuple[str, str]]  # key to value and source, over everything given
    settings: Settings
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The broker's name in routes."""
        return self.settings.text("brokerName")


def plan_brokers(
    world: World, arguments: ServerArguments, count: int, own_files: Sequence[Path] = ()
) -> list[PlannedBroker]:
    """Return the settings of *count* brokers.

    Args:
        arguments: common to all brokers.
        own_files: settings of the brokers, in order; empty, or as many as there are brokers.

    Raises:
        ConfigError: a setting is invalid, or cannot be the same for several brokers.
        PluginError: a plugin is broken.
    """
    files: Sequence[Path | None] = own_files or [None] * count
    return [_planned(world, attrs.evolve(arguments, own_file=file), i, count) for i, file in enumerate(files)]


def _planned(world: World, arguments: ServerArguments, number: int, count: int) -> PlannedBroker:
    settings, _, notes = broker_settings(world, arguments)
    own = frozenset[str]()
    if arguments.own_file is not None:
        own = frozenset(line.key for line in read_settings_file(world.files, arguments.own_file))
    source = f"{arguments.command}, broker {number}"
    forced: dict[str, tuple[str, str]] = {}

    def force(key: str, value: object) -> None:
        if key not in own:
            settings.set(key, str(value), source)
            forced[key] = (str(value), source)

    if count > 1 and _ADVERTISED not in own and settings.text(_ADVERTISED):
        raise ConfigError(
            f"{settings.source(_ADVERTISED)}: {_ADVERTISED} cannot be the same for several brokers; set it in a file "
            "of each (--broker-config)"
        )
    force("brokerName", f"{settings.text('brokerName') or 'broker'}-{number}")
    force("storePathRootDir", store_root(settings) / settings.text("brokerName"))
    for key in free_port_keys(settings.schema.values()):
        if port := settings.number(key):
            force(key, port + PORT_STEP * number)
    if number and _LISTENERS not in own and settings.text(_LISTENERS):
        listeners = listeners_of(settings, any_protocol=True)
        force(_LISTENERS, ",".join(_entry(each, PORT_STEP * number) for each in listeners))
        listeners_of(settings, any_protocol=True)  # refuses a port above the largest
    if number and CONSOLE in settings.schema:
        force(CONSOLE, "")
    return PlannedBroker(arguments, forced, settings, notes)


def _entry(listener: NamedListener, step: int) -> str:
    """Return a listener as in the setting, with a port *step* above its own."""
    tls = "+tls" if listener.tls else ""
    address = format_address(listener.host, listener.port and listener.port + step)
    return f"{listener.name}={listener.protocol}{tls}://{address}"


def check_brokers(brokers: Sequence[PlannedBroker]) -> None:
    """Check the settings that must differ between brokers of one machine.

    Raises:
        ConfigError: two brokers have the same name, folder or port.
    """
    for one, other in combinations(brokers, 2):
        if one.name == other.name:
            more = (
                "; brokers of one elected set are started one by one, with 'gantrymq broker'" if _elected(one) else ""
            )
            raise ConfigError(
                f"two brokers have the name {one.name}; set another brokerName in the file of one of them{more}"
            )
        ports = _ports(other.settings) if _same_host(one.settings, other.settings) else {}
        for port, key in _ports(one.settings).items():
            if port in ports:
                raise ConfigError(
                    f"{key} of {one.name} and {ports[port]} of {other.name} are both {port}; set another port in the "
                    "file of one of them"
                )
        folders = _folders(other.settings)
        for folder, key in _folders(one.settings).items():
            for same, its_key in folders.items():
                if folder == same or folder in same.parents or same in folder.parents:
                    raise ConfigError(
                        f"{key} of {one.name} ({folder}) and {its_key} of {other.name} ({same}) are not separate "
                        "folders; set another one in the file of one of them"
                    )


def _elected(broker: PlannedBroker) -> bool:
    return _ELECTED in broker.settings.schema and broker.settings.flag(_ELECTED)


def _same_host(one: Settings, other: Settings) -> bool:
    hosts = {settings.text("bindAddress") for settings in (one, other)}
    return len(hosts) == 1 or not hosts.isdisjoint(ANY_ADDRESSES)


def _ports(settings: Settings) -> dict[int, str]:
    """Return the ports of a broker that are fixed, with their purposes."""
    found = {settings.number(key): key for key in free_port_keys(settings.schema.values())}
    if settings.flag("fastPortEnable"):
        found.setdefault(settings.number("listenPort") - FAST_BELOW, f"listenPort - {FAST_BELOW}, the fast port,")
    if _HA_PORT in settings.schema and settings.number("listenPort") and not settings.number(_HA_PORT):
        found.setdefault(settings.number("listenPort") + 1, "listenPort + 1, the port for slaves,")
    if CONSOLE in settings.schema and (listen := settings.text(CONSOLE)):
        found.setdefault(_port_of(listen), CONSOLE)
    return {port: key for port, key in found.items() if port > 0}


def _port_of(address: str) -> int:
    try:
        return parse_address(address)[1]
    except ValueError:
        return 0  # reported by the plugin


def _folders(settings: Settings) -> dict[Path, str]:
    keys = (key for key in settings.schema if key.startswith(_PATHS) and settings.schema[key].kind == "text")
    return {path_of(settings, key): key for key in keys if settings.text(key)}


def left_out(files: FileReader, root: Path, brokers: Iterable[PlannedBroker]) -> Iterator[str]:
    """Return notes about stores in the common folder *root* that no broker opens."""
    opened = {store_root(each.settings) for each in brokers}
    if root not in opened and files.stat(root / "commitlog") is not None:
        yield (
            f"{root} has the store of a single broker, whose messages are not served: the brokers have folders of "
            "their own in it; start that broker as before, or give it this folder and its brokerName in a file "
            "(--broker-config)"
        )
    if files.stat(root) is None:
        return
    for name in sorted(files.list(root)):
        if root / name not in opened and files.stat(root / name / "commitlog") is not None:
            yield f"{root / name} has the store of a broker that is not started; its messages are not served"
