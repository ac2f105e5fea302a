"""The name servers: whether they answer, and whether they know the same brokers and topics."""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq_admin.asking import Asking
from gantrymq_console.data.cluster import Aged, Cluster

__all__ = ["NameServerState", "NameServers", "kv_values", "name_servers"]

AGE_S: Final = 5.0
DEADLINE_S: Final = 2.0  # shorter than the deadline of a page, so that the others are still shown
MOST_NAMED: Final = 10  # topics that a server lacks


@attrs.frozen
class NameServerState:
    """One name server."""

    address: str
    answers: bool
    problem: str = ""  # why it does not answer
    brokers: tuple[str, ...] = ()  # "name:id at address", sorted
    topics: int = 0
    lacks_brokers: tuple[str, ...] = ()  # which another name server knows
    lacks_topics: tuple[str, ...] = ()  # the first ones
    lacks: int = 0  # number of topics that another name server knows


@attrs.frozen
class NameServers:
    """All configured name servers."""

    servers: tuple[NameServerState, ...]

    @property
    def agree(self) -> bool:
        """Whether those that answer know the same brokers and topics."""
        return not any(each.lacks_brokers or each.lacks for each in self.servers)


async def name_servers(cluster: Cluster) -> Aged[NameServers]:
    """Return the state of all name servers, at most 5 s old; the brokers of the only one up to 10 s. Does not fail."""
    return await cluster.shared("name_servers", AGE_S, lambda: _name_servers(cluster))


async def kv_values(cluster: Cluster, namespace: str = ORDER_NAMESPACE) -> Aged[dict[str, str]]:
    """Return the keys of a namespace with their values, at most 5 s old."""
    return await cluster.shared(("kv", namespace), AGE_S, lambda: cluster.admin.kv_values(namespace))


@attrs.frozen
class _Known:
    brokers: frozenset[str]
    topics: frozenset[str]


async def _name_servers(cluster: Cluster) -> NameServers:
    asking = Asking(cluster.world.clock, DEADLINE_S)
    got = await asking.all({server: _known(cluster, server) for server in cluster.admin.name_servers})
    problems = {each.what: each.sentence for each in asking.missing}
    brokers = frozenset[str]().union(*(each.brokers for each in got.values()))
    topics = frozenset[str]().union(*(each.topics for each in got.values()))
    found = []
    for server in cluster.admin.name_servers:
        known = got.get(server)
        if known is None:
            found.append(NameServerState(server, False, problems.get(server, "")))
            continue
        lacking = topics - known.topics
        state = NameServerState(
            server,
            True,
            brokers=tuple(sorted(known.brokers)),
            topics=len(known.topics),
            lacks_brokers=tuple(sorted(brokers - known.brokers)),
            lacks_topics=tuple(sorted(lacking)[:MOST_NAMED]),
            lacks=len(lacking),
        )
        found.append(state)
    return NameServers(tuple(found))


async def _known(cluster: Cluster, server: str) -> _Known:
    if cluster.admin.name_servers == (server,):  # the console has asked it for the brokers already
        listed = await cluster.addresses()
    else:
        listed = (await cluster.admin.clusters(server)).brokers
    brokers = frozenset(
        f"{broker.name}:{broker_id} at {address}"
        for broker in listed
        for broker_id, address in broker.addresses.items()
    )
    return _Known(brokers, frozenset(await cluster.admin.topics(server)))
