"""The description of a cluster in TOML.

cluster = "orders"                     brokerClusterName; DefaultCluster when left out
masters = 2                            broker-a, broker-b on machines in turn, or { NAME = "MACHINE", ... }
slaves = 1                             copies of each master on the next machines, or { NAME = ["MACHINE", ...], ... }
name_servers = 2                       on the first machines, or ["MACHINE", ...]; one each on up to three when left out
data = "/var/lib/gantrymq"             folder of the stores on every machine
config = "/etc/gantrymq"               folder of the settings files on every machine
access = "account.json"                file with the account of the servers, for access control; none when left out

[machines]                             name and address of each
m1 = "192.0.2.11"
m2 = "192.0.2.12"

[settings]                             of every broker, under RocketMQ's names
[name_server_settings]                 of every name server
[brokers.NAME]                         of one master and its slaves, over [settings]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import is_host_name, is_ip_address

EXAMPLE: Final = """\
cluster = "orders"
masters = 2            # broker-a, broker-b, on machines in turn; or { broker-a = "m1", ... }
name_servers = 2       # on the first machines; or ["m1", "m2"]

[machines]             # names and addresses
m1 = "192.0.2.11"
m2 = "192.0.2.12"

[settings]             # of every broker, under RocketMQ's names
flushDiskType = "SYNC_FLUSH"

[brokers.broker-b]     # of one broker
fileReservedTime = 24
"""

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*\Z", re.ASCII)  # of a broker or machine: also names of files and folders
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_NAME_SERVERS: Final = 3  # by default
ANY_ADDRESS: Final = ("0.0.0.0", "::")
_INNER: Final = "innerClientAuthenticationCredentials"
_OF_PLAN: Final = {  # keys that settings must not have, and why
    "brokerClusterName": "the key cluster of the description",
    "brokerName": "the name in masters",
    "brokerId": "chosen for each slave",
    "namesrvAddr": "the list of name_servers",
    _INNER: "in the file of the key access",
}
_OF_MACHINE: Final = {
    "brokerIP1": "the address of the machine; a broker may have another one in [brokers.NAME]",
    "storePathRootDir": "a folder in data; a broker may have another one in [brokers.NAME]",
}

Values = Mapping[str, str]


@attrs.frozen
class Description:
    """A cluster, with the machine of each server."""

    cluster: str
    machines: Mapping[str, str]  # name to address, in order
    masters: Mapping[str, str]  # broker to machine
    slaves: Mapping[str, tuple[str, ...]]  # broker to machines of its copies
    name_servers: tuple[str, ...]  # machines
    data: str
    config: str
    access: str  # file beside the description; empty without access control
    settings: Values
    name_server_settings: Values
    brokers: Mapping[str, Values]  # settings of single brokers


def parse(text: str | bytes, source: str) -> Description:
    """Return the description in *text*; *source* is its name for errors.

    Raises:
        ConfigError: it is not TOML, or not a description of a cluster.
    """
    try:
        table = tomllib.loads(text if isinstance(text, str) else text.decode())
        return _description(table)
    except UnicodeDecodeError:
        raise ConfigError(f"{source} is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{source} is not TOML: {problem}") from None
    except _Wrong as problem:
        raise ConfigError(f"{source}: {problem}") from None


class _Wrong(Exception):
    """An error of the description."""


def _description(table: Mapping[str, Any]) -> Description:
    known = [field.name for field in attrs.fields(Description)]
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            raise _Wrong(
                f"there is no key {key}{f' (did you mean {near[0]}?)' if near else ''}; {_list('keys', known)}"
            )
    machines = _machines(table.get("machines"))
    masters = _masters(table.get("masters", 1), machines)
    return Description(
        cluster=_text(table, "cluster", "DefaultCluster"),
        machines=machines,
        masters=masters,
        slaves=_slaves(table.get("slaves", 0), masters, machines),
        name_servers=_name_servers(table.get("name_servers", min(_NAME_SERVERS, len(machines))), machines),
        data=_folder(table, "data", "/var/lib/gantrymq"),
        config=_folder(table, "config", "/etc/gantrymq"),
        access=_text(table, "access", "") if "access" in table else "",
        settings=_values(table.get("settings", {}), "settings", _OF_PLAN | _OF_MACHINE),
        name_server_settings=_values(
            table.get("name_server_settings", {}),
            "name_server_settings",
            {_INNER: _OF_PLAN[_INNER]},
        ),
        brokers=_of_brokers(table.get("brokers", {}), masters),
    )


def _machines(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not given:
        raise _Wrong('it needs machines with their addresses, such as [machines] with the line m1 = "192.0.2.11"')
    for name, address in given.items():
        _check_name("machine", name)
        if not isinstance(address, str) or not (is_ip_address(address) or is_host_name(address)):
            raise _Wrong(
                f"the address of machine {name} is {address!r}, which is neither an IP address nor a host name"
            )
        if address in ANY_ADDRESS:
            raise _Wrong(f"the address of machine {name} is {address}; write the one under which others reach it")
    return given


def _masters(given: Any, machines: Mapping[str, str]) -> dict[str, str]:
    if isinstance(given, dict):
        for name, machine in given.items():
            _check_name("broker", name)
            _check_machine(f"master {name}", machine, machines)
        if given:
            return given
    names = list(machines)
    count = _count("masters", given, 1, len(_LETTERS), '{ broker-a = "m1", ... }')
    return {f"broker-{_LETTERS[i]}": names[i % len(names)] for i in range(count)}


def _slaves(given: Any, masters: Mapping[str, str], machines: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    if isinstance(given, dict):
        found = {}
        for name, places in given.items():
            if name not in masters:
                raise _Wrong(f"slaves: there is no master {name}; {_list('masters', masters)}")
            found[name] = _machine_list(f"slaves of {name}", places, machines)
        return found
    names = list(machines)
    count = _count("slaves", given, 0, len(names), '{ broker-a = ["m2"], ... }')
    return {
        master: tuple(names[(names.index(machine) + 1 + i) % len(names)] for i in range(count))
        for master, machine in masters.items()
        if count
    }


def _name_servers(given: Any, machines: Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(given, list):
        found = _machine_list("name_servers", given, machines)
        if len(set(found)) < len(found):
            raise _Wrong("name_servers has a machine twice; each machine has one name server at most")
        if found:
            return found
    return tuple(machines)[: _count("name_servers", given, 1, len(machines), '["m1", ...]')]


def _machine_list(what: str, given: Any, machines: Mapping[str, str]) -> tuple[str, ...]:
    places = [given] if isinstance(given, str) else given
    if not isinstance(places, list):
        raise _Wrong(f"{what} is {given!r}; write a list of machines")
    for machine in places:
        _check_machine(what, machine, machines)
    return tuple(places)


def _of_brokers(given: Any, masters: Mapping[str, str]) -> dict[str, Values]:
    if not isinstance(given, dict):
        raise _Wrong("brokers must be tables, such as [brokers.broker-a]")
    for name in given:
        if name not in masters:
            raise _Wrong(f"brokers: there is no master {name}; {_list('masters', masters)}")
    return {name: _values(values, f"brokers.{name}", _OF_PLAN) for name, values in given.items()}


def _values(given: Any, where: str, refused: Values = MappingProxyType({})) -> Values:
    """Return settings as texts in the form of a settings file; *refused*: keys that must not be there, and why."""
    if not isinstance(given, dict):
        raise _Wrong(f"{where} must be a table of settings, such as [{where}] with lines below")
    found = {}
    for key, value in _flat(given):
        if key in refused:
            raise _Wrong(f"{where}: {key} is {refused[key]}")
        if not isinstance(value, str | int):
            raise _Wrong(f"{where}: {key} is {value!r}; write a text, a whole number, true or false")
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _flat(table: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Return keys and values; TOML reads a key with dots, such as tls.server.mode, as tables in each other."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _text(table: Mapping[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(f"{key} is {value!r}; write a text")
    return value


def _folder(table: Mapping[str, Any], key: str, default: str) -> str:
    value = _text(table, key, default)
    if not value.startswith("/"):
        raise _Wrong(f"{key} is {value!r}; write the whole path, such as {default}")
    return value.rstrip("/") or "/"


def _count(key: str, value: Any, least: int, most: int, form: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _Wrong(f"{key} is {value!r}; write a number from {least} to {most}, or {key} = {form}")
    return value


def _check_name(what: str, name: str) -> None:
    if not _NAME.match(name):
        raise _Wrong(f"{name!r} is not a name of a {what}: it is one of files too; use letters, digits, - and _")


def _check_machine(what: str, machine: Any, machines: Mapping[str, str]) -> None:
    if machine not in machines:
        raise _Wrong(f"{what}: there is no machine {machine}; {_list('machines', machines)}")


def _list(what: str, names: Iterable[str]) -> str:
    return f"the {what} are {', '.join(names)}"
