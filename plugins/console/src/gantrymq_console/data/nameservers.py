"""The name servers: whether they answer, and whether they know the same brokers and topics; settings of servers.

Settings have a value, default, meaning and source, with secrets masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client.admin import ORDER_NAMESPACE, RequestNotServed
from gantrymq.plugin.settings import BROKER_DEFAULTS, NAME_SERVER_DEFAULTS
from gantrymq_admin.asking import Asking
from gantrymq_admin.explanations import ExplainedSetting, explained_settings
from gantrymq_console.access.users import is_secret, mask
from gantrymq_console.data.cluster import Aged, Cluster
from gantrymq_console.values import record_of

AGE_S: Final = 5.0
OF_COMMANDS: Final = (
    "gantrymq ",
    "quickstart",
    "neither bindAddress nor brokerIP1 is set",
    "bindAddress is not set",
    "the name server of this process",
)
"""Starts of the sources of values that commands set if no user did."""
_COMPUTED: Final = "the filter bit map"  # source of a value that follows from other settings
_AT_RUN_TIME: Final = "UPDATE_BROKER_CONFIG"  # start of the source of a value that a request set
DEADLINE_S: Final = 2.0  # shorter than the deadline of a page, so that the others are still shown
_MOST_NAMED: Final = 10  # topics that a server lacks


@attrs.frozen
class SettingRow:
    """One setting."""

    key: str
    value: str
    default: str | None  # None: not known
    differs: bool | None  # whether a user set another value than the default; None: not known
    origin: str  # default, request (gone at restart), command, computed, given (by a file, an option ...), unknown
    source: str  # in the broker's words
    help: str  # in English, empty if not known
    kind: str  # number, flag, text
    choices: tuple[str, ...]
    at_least: int | None
    at_most: int | None
    changeable: bool | None  # while the server runs; None: not known
    secret: bool
    own: bool  # GantryMQ's own, unknown to RocketMQ


async def broker_settings(cluster: Cluster, address: str) -> Aged[tuple[SettingRow, ...]]:
    """Return the settings of a broker, sorted by key, at most 5 s old."""

    async def ask() -> tuple[SettingRow, ...]:
        try:
            return tuple(map(_explained, await explained_settings(cluster.admin, address)))
        except RequestNotServed:
            return _plain(await cluster.admin.broker_settings(address), BROKER_DEFAULTS)

    return await cluster.shared(("settings", address), AGE_S, ask)


async def name_server_settings(cluster: Cluster, server: str) -> Aged[tuple[SettingRow, ...]]:
    """Return the settings of a name server, sorted by key, at most 5 s old."""

    async def ask() -> tuple[SettingRow, ...]:
        return _plain(await cluster.admin.name_server_settings(server), NAME_SERVER_DEFAULTS)

    return await cluster.shared(("settings", server), AGE_S, ask)


def _explained(each: ExplainedSetting) -> SettingRow:
    origin = _origin(each.source)
    return record_of(
        SettingRow,
        each,
        value=mask(each.key, each.value) if not each.secret else each.value,
        differs=each.value != each.default and origin in ("request", "given"),
        origin=origin,
        changeable=each.runtime,
        secret=each.secret or is_secret(each.key),
        own=each.rocketmq_default is None,
    )


def _origin(source: str) -> str:
    if source.startswith(_AT_RUN_TIME):
        return "request"
    if source.startswith(OF_COMMANDS):
        return "command"
    return {"default": "default", _COMPUTED: "computed"}.get(source, "given")


def _plain(values: Mapping[str, str], defaults: Mapping[str, str]) -> tuple[SettingRow, ...]:
    """Return settings of which only the values are known."""
    return tuple(
        SettingRow(
            key,
            mask(key, value),
            default := defaults.get(key) or None,  # empty: depends on the machine
            None if default is None else value != default,
            "unknown",
            "",
            "",
            "flag" if value in ("true", "false") else "text",
            (),
            None,
            None,
            None,
            is_secret(key),
            key not in defaults,
        )
        for key, value in sorted(values.items())
    )


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
            lacks_topics=tuple(sorted(lacking)[:_MOST_NAMED]),
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
