"""Connected clients: producers and consumers of all groups, by client id.

Brokers of RocketMQ return all producers at once, but consumers only group by group. So the groups are asked one after
the other, see `gantrymq_console.data.table`, and the list says how many of them it does not know yet.
"""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.client.admin import GroupClient
from gantrymq_console.data.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import group_configs
from gantrymq_console.data.table import FEW, BrokerTable
from gantrymq_console.data.versions import version_name
from gantrymq_console.web.values import Long

__all__ = ["ROLES", "SORTS", "ClientList", "ClientPage", "client_list", "client_page"]

AGE_S: Final = 10.0
ROLES: Final = ("all", "consumer", "producer")
SORTS: Final = ("id", "address", "language", "version")


@attrs.frozen
class Connection:
    """One client at one broker in one role."""

    client_id: str
    role: str  # "consumer" or "producer"
    group: str
    broker: str
    address: str
    language: str
    version: str  # of the protocol


@attrs.frozen
class ClientRow:
    """One client in the list."""

    client_id: str
    roles: tuple[str, ...]
    addresses: tuple[str, ...]
    language: str
    version: str  # of the protocol
    groups: tuple[str, ...]
    brokers: tuple[str, ...]


@attrs.frozen
class ClientList:
    """A page of the list."""

    filter: str
    role: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # groups whose members are not known yet
    clients: tuple[ClientRow, ...]


@attrs.frozen
class ClientPage:
    """Everything about one client."""

    client: ClientRow
    unknown: int
    connections: tuple[Connection, ...]


async def client_list(
    cluster: Cluster, asking: Asking, contains: str, role: str, sort: str, down: bool, start: int, rows: int
) -> ClientList:
    """Return a page of the clients whose id, address or group contains a text."""
    found, unknown = await _connections(cluster, asking)
    wanted = contains.lower()
    by_id: dict[str, list[Connection]] = {}
    for each in found:
        if role in ("all", each.role):
            by_id.setdefault(each.client_id, []).append(each)
    made = [
        _row(client_id, connections)
        for client_id, connections in by_id.items()
        if not wanted
        or wanted in client_id.lower()
        or any(wanted in each.address.lower() or wanted in each.group.lower() for each in connections)
    ]
    made.sort(key=lambda row: row.client_id, reverse=down and sort == "id")
    if sort != "id":
        made.sort(key=lambda row: _key(row, sort), reverse=down)
    return ClientList(contains, role, sort, down, start, Long(len(made)), unknown, tuple(made[start : start + rows]))


async def client_page(cluster: Cluster, asking: Asking, client_id: str) -> ClientPage | None:
    """Return everything about one client, None if it is not known to be connected."""
    found, unknown = await _connections(cluster, asking)
    own = [each for each in found if each.client_id == client_id]
    if not own:
        return None
    own.sort(key=lambda each: (each.role, each.group, each.broker))
    return ClientPage(_row(client_id, own), unknown, tuple(own))


async def _connections(cluster: Cluster, asking: Asking) -> tuple[list[Connection], int]:
    """Return what is connected, and the number of groups whose members are not known yet."""
    masters = await asking.needed(cluster.masters())
    configs = await group_configs(cluster, asking)
    tables: dict[str, BrokerTable[tuple[GroupClient, ...]]] = cluster.kept.setdefault("clients", {})
    for name, address in masters.items():
        known = tables.get(name)
        if known is None or known.address != address:

            async def ask(at: str, group: str) -> tuple[GroupClient, ...]:
                online = await cluster.admin.consumer_connections(at, group)
                return online.clients if online is not None else ()

            tables[name] = BrokerTable(cluster, "clients", address, None, ask)
    await asking.all({name: tables[name].refresh(list(part)[:FEW], list(part)) for name, part in configs.items()})
    senders = await asking.all({name: _producers(cluster, address) for name, address in masters.items()})
    found = [
        Connection(each.client_id, "producer", group, broker, each.address, each.language, version_name(each.version))
        for broker, groups in senders.items()
        for group, listed in groups.items()
        for each in listed
    ]
    unknown: set[str] = set()
    for broker, part in configs.items():
        for group in part:
            aged = tables[broker].rows.get(group)
            if aged is None:
                unknown.add(group)
            for each in (aged.value or ()) if aged is not None else ():
                found.append(
                    Connection(
                        each.client_id,
                        "consumer",
                        group,
                        broker,
                        each.address,
                        each.language,
                        version_name(each.version),
                    )
                )
    return found, len(unknown)


async def _producers(cluster: Cluster, address: str) -> dict[str, tuple[GroupClient, ...]]:
    asked = cluster.shared(("producers", address), AGE_S, lambda: cluster.admin.producers(address))
    return (await asked).value


def _row(client_id: str, connections: list[Connection]) -> ClientRow:
    return ClientRow(
        client_id,
        tuple(sorted({each.role for each in connections})),
        tuple(sorted({each.address for each in connections})),
        connections[0].language,
        connections[0].version,
        tuple(sorted({each.group for each in connections})),
        tuple(sorted({each.broker for each in connections})),
    )


def _key(row: ClientRow, sort: str) -> tuple[str, ...]:
    if sort == "address":
        return row.addresses
    return (row.language,) if sort == "language" else (row.version,)
