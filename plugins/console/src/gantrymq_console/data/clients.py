"""Connected clients: producers and consumers of all groups, by client id.

A broker of GantryMQ returns its connections. Brokers of RocketMQ return all producers at once, but consumers only group
by group. So the groups are asked one after the other, see `gantrymq_console.data.table`, and the list says how many of
them it does not know yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import GroupClient, RequestNotServed
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_admin.summaries import MAX_ROWS, ConnectionSummaries, ConnectionSummary, summary_page, version_name
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.groups import groups_at
from gantrymq_console.data.table import FEW, BrokerTable, ListPage, ListQuery
from gantrymq_console.values import record_of

AGE_S: Final = 10.0
ROLES: Final = ("all", "consumer", "producer")
SORTS: Final = ("id", "address", "language", "version")
_ASK_AGAIN_MS: Final = 600_000  # before a broker that served no summaries is asked for them again
_MOST_CONNECTIONS: Final = 20_000  # of one broker


@attrs.frozen
class Connection:
    """One client at one broker in one role."""

    client_id: str
    role: str  # "consumer" or "producer"
    group: str
    broker: str
    address: str
    language: str
    version: str = attrs.field(converter=version_name)  # of the protocol
    since_ms: int | None = None  # wall time of the first request; None: not reported (also for the next three)
    listener: str | None = None  # of the broker
    encrypted: bool | None = None
    user: str | None = None  # empty without access control
    more_groups: int = 0  # of this connection, which the broker left out


@attrs.frozen
class ClientRow:
    """One client in the list."""

    client_id: str
    roles: tuple[str, ...]
    addresses: tuple[str, ...]
    language: str
    version: str  # of the protocol
    groups: tuple[str, ...]
    more_groups: int
    brokers: tuple[str, ...]
    since_ms: int | None


@attrs.frozen
class ClientList(ListPage):
    """A page of the list; `unknown` is the number of groups whose members are not known yet."""

    role: str
    clients: tuple[ClientRow, ...]
    as_of_ms: int | None = attrs.field(default=None, metadata={"json": False})  # of the oldest answer


@attrs.frozen
class ClientPage:
    """Everything about one client."""

    client: ClientRow
    unknown: int
    connections: tuple[Connection, ...]
    as_of_ms: int | None = attrs.field(default=None, metadata={"json": False})  # of the oldest answer


@attrs.frozen
class _Found:
    """The connections of one broker, or of all."""

    connections: Sequence[Connection]
    unknown: Collection[str]  # groups whose members are not known yet
    as_of_ms: int | None  # of the oldest answer
    partial: bool = False  # whether a broker did not answer


async def client_list(cluster: Cluster, asking: Asking, query: ListQuery) -> ClientList:
    """Return a page of the clients whose id, address or group contains a text."""
    found = await _connections(cluster, asking)
    wanted, role, sort, end = query.contains.lower(), query.kind, query.sort, query.start + query.rows
    by_id: dict[str, list[Connection]] = {}
    for each in found.connections:
        if role in ("all", each.role):
            by_id.setdefault(each.client_id, []).append(each)
    made = [
        _row(client_id, connections)
        for client_id, connections in by_id.items()
        if not wanted
        or wanted in client_id.lower()
        or any(wanted in each.address.lower() or wanted in each.group.lower() for each in connections)
    ]
    made.sort(key=lambda row: row.client_id, reverse=query.down and sort == "id")
    if sort != "id":
        made.sort(key=lambda row: _key(row, sort), reverse=query.down)
    more = {"role": role, "clients": tuple(made[query.start : end]), "as_of_ms": found.as_of_ms}
    return ClientList.of(query, len(made), len(found.unknown), found.partial, **more)


async def client_page(cluster: Cluster, asking: Asking, client_id: str) -> ClientPage | None:
    """Return everything about one client, None if it is not known to be connected."""
    found = await _connections(cluster, asking)
    own = [each for each in found.connections if each.client_id == client_id]
    if not own:
        return None
    own.sort(key=lambda each: (each.role, each.group, each.broker))
    return ClientPage(_row(client_id, own), len(found.unknown), tuple(own), found.as_of_ms)


async def _connections(cluster: Cluster, asking: Asking) -> _Found:
    """Return the connections of all brokers."""
    readers = await readers_of(cluster, asking)
    found = await asking.all({name: _of_broker(cluster, name, address) for name, address in readers.items()})
    connections = [each for part in found.values() for each in part.connections]
    unknown = {group for part in found.values() for group in part.unknown}
    times = (part.as_of_ms for part in found.values() if part.as_of_ms is not None)
    return _Found(connections, unknown, min(times, default=None), len(found) < len(readers))


async def _of_broker(cluster: Cluster, broker: str, address: str) -> _Found:
    """Return the connections of one broker."""
    refused: dict[str, int] = cluster.kept.setdefault("clients_not_served", {})
    now = monotonic_ms(cluster.world.clock)
    if now - refused.get(address, -_ASK_AGAIN_MS) >= _ASK_AGAIN_MS:
        try:
            asked = cluster.shared(("connections", address), AGE_S / 2, lambda: _summaries(cluster.admin, address))
            found = await asked
            listed, age_ms = found.value
            return _Found([one for each in listed for one in _roles(broker, each)], (), found.as_of_ms - age_ms)
        except RequestNotServed:
            refused[address] = now
    return await _one_by_one(cluster, broker, address)


async def _summaries(admin: Admin, address: str) -> tuple[list[ConnectionSummary], int]:
    """Return all connections with a heartbeat, at most `_MOST_CONNECTIONS`, and their age in milliseconds.

    Raises RequestNotServed.
    """
    found: list[ConnectionSummary] = []
    age_ms = 0
    while len(found) < _MOST_CONNECTIONS:
        page = await summary_page(admin, address, ConnectionSummaries, start=len(found), most=MAX_ROWS)
        found += page.connections
        age_ms = max(age_ms, page.age_ms)
        if not page.connections or len(found) >= page.total:
            break
    return found, age_ms


def _roles(broker: str, each: ConnectionSummary) -> list[Connection]:
    """Return a connection once for each of its groups."""
    groups = [("consumer", group) for group in each.consumers] + [("producer", group) for group in each.producers]
    return [record_of(Connection, each, role=role, group=group, broker=broker) for role, group in groups]


async def _one_by_one(cluster: Cluster, broker: str, address: str) -> _Found:
    """Return the connections of a broker without summaries."""
    tables: dict[str, BrokerTable[tuple[GroupClient, ...]]] = cluster.kept.setdefault("clients", {})
    known = tables.get(broker)
    if known is None or known.address != address:
        known = tables[broker] = BrokerTable(cluster, "clients", address, None, partial(_members, cluster))
    groups = list(await groups_at(cluster, address))
    await known.refresh(groups[:FEW], groups)
    producers = await cluster.shared(("producers", address), AGE_S, lambda: cluster.admin.producers(address))
    found = [
        record_of(Connection, each, role="producer", group=group, broker=broker)
        for group, listed in producers.value.items()
        for each in listed
    ]
    times = [producers.as_of_ms]
    for group in groups:
        aged = known.rows.get(group)
        if aged is None:
            continue
        times.append(aged.as_of_ms)
        found += [record_of(Connection, each, role="consumer", group=group, broker=broker) for each in aged.value or ()]
    return _Found(found, {group for group in groups if group not in known.rows}, min(times))


async def _members(cluster: Cluster, address: str, group: str) -> tuple[GroupClient, ...]:
    online = await cluster.admin.consumer_connections(address, group)
    return online.clients if online is not None else ()


def _row(client_id: str, connections: list[Connection]) -> ClientRow:
    return ClientRow(
        client_id,
        tuple(sorted({each.role for each in connections})),
        tuple(sorted({each.address for each in connections})),
        connections[0].language,
        connections[0].version,
        tuple(sorted({each.group for each in connections})),
        max(each.more_groups for each in connections),
        tuple(sorted({each.broker for each in connections})),
        min((each.since_ms for each in connections if each.since_ms is not None), default=None),
    )


def _key(row: ClientRow, sort: str) -> tuple[str, ...]:
    if sort == "address":
        return row.addresses
    return (row.language,) if sort == "language" else (row.version,)
