"""Servers on machines, with their settings.

Brokers of one machine differ by name, folder and ports: the port of the i-th, from 0, is the common one plus 10 i, as
in ``gantrymq start --brokers``. Names and addresses are fixed, because clients see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Final

import attrs

from gantrymq.plugin.model import format_address, is_ip_address
from gantrymq.plugin.settings import properties_text
from gantrymq_admin.planning.description import ANY_ADDRESS, Description

PORT: Final = "listenPort"
METRICS_HOST: Final = "metricsPromExporterHost"  # empty: the advertised address
METRICS_PORT: Final = "metricsPromExporterPort"
HA_PORT: Final = "haListenPort"
_PORT_STEP: Final = 10
_NAME_SERVER_PORT: Final = 9876
_BROKER_PORT: Final = 10911
METRICS_DEFAULT: Final = 5557
_LOOPBACK: Final = "127.0.0.1"
_NO_METRICS: Final = ("DISABLE", "0")
_SLAVE_TIMEOUT: Final = "slaveTimeout"
_ACCOUNT: Final = "innerClientAuthenticationCredentials"
_SELECT_AUTHORIZER: Final = ("authorizer", "authenticationEnabled", "aclEnable")
_FOR_ACTING: Final = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}  # of name servers
_REASONS: Final = {
    _SLAVE_TIMEOUT: "below the 3 s after which clients give up, so that they get the answer; RocketMQ's default is 3000"
}


@attrs.frozen
class Server:
    """A server on a machine."""

    machine: str
    host: str  # address of the machine
    kind: str  # "name server", "master" or "slave"
    name: str  # of its files: namesrv, the broker's name, or that with -s1 for its first slave
    broker: str  # brokerName; empty for a name server
    values: Mapping[str, str]  # its settings
    command: str  # that starts it
    chosen: frozenset[str] = frozenset()  # keys of `values` that are neither in the description nor of the place

    @property
    def file(self) -> str:
        """The name of its settings file."""
        return f"{self.name}.conf"

    @property
    def port(self) -> int:
        """The port of its main listener; 0 if that is not a number."""
        return number(self.values, PORT)

    @property
    def address(self) -> str:
        """The address under which clients reach it."""
        return format_address(self.values.get("brokerIP1", self.host), self.port)

    @property
    def metrics(self) -> str:
        """The address of its metrics; empty if it has none, or on a free port."""
        port = number({METRICS_PORT: str(METRICS_DEFAULT), **self.values}, METRICS_PORT)
        if not (self.broker and port) or self.values.get("metricsExporterType") in _NO_METRICS:
            return ""
        host = self.values.get(METRICS_HOST, _LOOPBACK).strip() or self.values.get("brokerIP1", self.host)
        return format_address(self.host if host in ANY_ADDRESS else host, port)

    def text(self, source: str) -> str:
        """Return the contents of its settings file."""
        kind = "broker with an elected role" if elected(self.values) else self.kind
        lines = [f"# {kind} on {self.machine}, by gantrymq cluster plan from {source}\n"]
        for key, value in self.values.items():
            if key in self.chosen:
                lines.append(f"# {_REASONS[key]}\n")
            lines.append(properties_text({key: value}))
        return "".join(lines)


def number(values: Mapping[str, str], key: str) -> int:
    """Return a port, or 0 if it is not set or not a number."""
    text = values.get(key, "").strip()
    return int(text) if text.isascii() and text.isdigit() else 0


def elected(values: Mapping[str, str]) -> bool:
    """Return whether the role of a broker with these settings is elected."""
    return values.get("enableControllerMode", "").strip().lower() == "true"


def name_server_list(description: Description) -> str:
    """Return the addresses of all name servers, as clients and brokers write them."""
    port = number(description.name_server_settings, PORT) or _NAME_SERVER_PORT
    return ";".join(format_address(description.machines[machine], port) for machine in description.name_servers)


def place(description: Description, account: str = "") -> list[Server]:
    """Return all servers in the order in which they start: name servers, masters, slaves.

    *account*: the value of innerClientAuthenticationCredentials, for access control.
    """
    servers = [_name_server(description, machine) for machine in description.name_servers]
    brokers_at = dict.fromkeys(description.machines, 0)
    for machine, name, broker_id in _brokers(description):
        servers.append(_broker(description, machine, name, broker_id, brokers_at[machine]))
        brokers_at[machine] += 1
    return [attrs.evolve(each, values=_controlled(each, account)) for each in servers] if account else servers


def _controlled(server: Server, account: str) -> dict[str, str]:
    """Return the settings of a server with access control."""
    values = {**server.values, _ACCOUNT: account}
    if server.broker and not any(values.get(key) for key in _SELECT_AUTHORIZER):
        values["authorizer"] = "acl"
    return values


def _brokers(description: Description) -> Iterator[tuple[str, str, int]]:
    for name, machine in description.masters.items():
        yield machine, name, 0
    for name, machines in description.slaves.items():
        for broker_id, machine in enumerate(machines, 1):
            yield machine, name, broker_id


def _name_server(description: Description, machine: str) -> Server:
    values = {
        PORT: str(_NAME_SERVER_PORT),
        "bindAddress": _bind(description.machines[machine]),
        "kvConfigPath": f"{description.data}/namesrv/kvConfig.json",
        **(_FOR_ACTING if _has_acting_masters(description) else {}),
        **description.name_server_settings,
    }
    command = f"gantrymq nameserver -c {quote(f'{description.config}/namesrv.conf')}"
    return Server(machine, description.machines[machine], "name server", "namesrv", "", values, command)


def _has_acting_masters(description: Description) -> bool:
    several = (description.settings, *description.brokers.values())
    return any(values.get("enableSlaveActingMaster") == "true" for values in several)


def _broker(description: Description, machine: str, broker: str, broker_id: int, place: int) -> Server:
    address, name = description.machines[machine], f"{broker}-s{broker_id}" if broker_id else broker
    common, own = description.settings, description.brokers.get(broker, {})
    ports = {PORT: _BROKER_PORT}
    if place:
        ports[METRICS_PORT] = METRICS_DEFAULT
    ports |= {key: number(common, key) for key in common if key.endswith("Port") and number(common, key)}
    values = {
        "brokerClusterName": description.cluster,
        "brokerName": broker,
        "brokerIP1": address,
        "bindAddress": _bind(address),
        "namesrvAddr": name_server_list(description),
        "storePathRootDir": f"{description.data}/{name}",
        **common,
        **{key: str(port + _PORT_STEP * place) for key, port in ports.items()},
    }
    values |= {"brokerName": broker, **own}
    if description.slaves:
        values.setdefault(HA_PORT, str(number(values, PORT) + 1))
        if not elected(values):
            values["brokerId"] = str(broker_id)
            if broker_id:
                values["brokerRole"] = "SLAVE"
    chosen = frozenset[str]()
    waits = values.get("brokerRole") == "SYNC_MASTER" or elected(values)
    if waits and _SLAVE_TIMEOUT not in values:
        values[_SLAVE_TIMEOUT] = "1000"
        chosen = frozenset({_SLAVE_TIMEOUT})
    command = f"gantrymq broker -c {quote(f'{description.config}/{name}.conf')}"
    return Server(machine, address, "slave" if broker_id else "master", name, broker, values, command, chosen)


def _bind(address: str) -> str:
    """Return the address to listen on: the machine's, or all if it is a name, which may change."""
    return address if is_ip_address(address) else "0.0.0.0"
