"""The definitions that a cluster has, broker by broker, and their document.

Masters are asked for all their topics and groups, one request each; name servers for the order configurations. If one
server does not answer, nothing is returned: a document without a broker would look like one of a smaller cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq.errors import ClientError
from gantrymq.plugin import names
from gantrymq.plugin.model import PERM_READ, PERM_WRITE, GroupConfig, TopicConfig
from gantrymq_admin.definitions.document import Document, combine
from gantrymq_admin.definitions.fields import GROUP, KINDS, TOPIC, UNREADABLE, Kind, Values
from gantrymq_admin.topics import is_own_group, is_own_topic, named_after

_TOGETHER: Final = 500  # definitions in one step of the event loop, some 5 ms

Tables = Mapping[Kind, Mapping[str, Values]]
"""Every topic and group of one broker."""


@attrs.frozen
class ClusterTables:
    """The definitions of a cluster."""

    cluster: str
    addresses: Mapping[str, str]  # masters by broker name, sorted
    brokers: Mapping[str, Tables]  # by broker name, sorted
    order_configs: Mapping[str, str]  # only for topics of the cluster

    @property
    def places(self) -> frozenset[str]:
        """Names of topics that brokers create for the cluster and for themselves."""
        return named_after([self.cluster], self.brokers)


async def read_cluster(admin: Admin, cluster: str | None = None) -> ClusterTables:
    """Return the definitions of *cluster*, or of the only one.

    Raises:
        ClusterUnclear: no such cluster, or several and none named.
        ClientError: a broker has no master now, or does not answer.
    """
    await admin.masters(cluster)  # raises if the cluster is not clear
    info = await admin.clusters()
    name = cluster or next(iter(info.clusters))
    addresses = {}
    for broker in info.brokers:
        if broker.name in info.clusters.get(name, ()):
            if broker.master is None:
                raise ClientError(f"broker {broker.name} of cluster {name} has no master now; start it first")
            addresses[broker.name] = broker.master
    tables = await asyncio.gather(*(read_tables(admin, address) for address in addresses.values()))
    topics = {topic for each in tables for topic in each[TOPIC]}
    order = {topic: text for topic, text in (await admin.kv_values(ORDER_NAMESPACE)).items() if topic in topics}
    return ClusterTables(name, addresses, dict(zip(addresses, tables, strict=True)), order)


async def read_tables(admin: Admin, address: str) -> Tables:
    """Return every topic and group of one broker. Raises ClientError if it does not return them."""
    topics, groups = await admin.topic_configs(address), await admin.groups(address)
    unreadable = {group: {UNREADABLE: list(named)} for group, named in (await admin.unreadable_topics(address)).items()}
    return {TOPIC: await _all_values(TOPIC, topics, {}), GROUP: await _all_values(GROUP, groups, unreadable)}


async def _all_values(
    kind: Kind, configs: Mapping[str, TopicConfig | GroupConfig], beside: Mapping[str, Values]
) -> dict[str, Values]:
    found = {}
    for number, (name, config) in enumerate(configs.items()):
        if not number % _TOGETHER:
            await asyncio.sleep(0)
        found[name] = kind.values(config, **beside.get(name, {}))
    return found


def export_document(found: ClusterTables, *, system: bool = False) -> Document:
    """Return the document of a cluster.

    Args:
        found: its definitions.
        system: include RocketMQ's own topics and groups, and retry and dead letter topics that are as RocketMQ makes
            them.
    """
    brokers = tuple(found.brokers)
    definitions = {}
    for kind in KINDS:
        at: dict[str, dict[str, Values]] = {}
        for broker, tables in found.brokers.items():
            for name, values in tables[kind].items():
                if system or not left_out(kind, name, tables, found.places):
                    at.setdefault(name, {})[broker] = mark_ordered(kind, name, values, found.order_configs)
        definitions[kind] = {name: combine(kind, at[name], brokers) for name in at}
    order = {topic: text for topic, text in found.order_configs.items() if system or topic in definitions[TOPIC]}
    return Document(found.cluster, brokers, definitions, order)


def mark_ordered(kind: Kind, name: str, values: Values, order_configs: Collection[str]) -> Values:
    """Return the values of a definition, with ``order`` for a topic that has an order configuration.

    A broker marks such a topic when it registers next. Without this, definitions would depend on when they are read.

    Source: apache/rocketmq broker/.../topic/TopicConfigManager.java (updateOrderTopicConfig).
    """
    return {**values, "order": True} if kind is TOPIC and name in order_configs else values


def left_out(kind: Kind, name: str, tables: Tables, places: Collection[str]) -> bool:
    """Return whether a document without system definitions does not have a topic or group of a broker.

    *tables* belong to the broker, *places* are the names of `named_after`.
    """
    return is_own(kind, name, places) or (kind is TOPIC and _made_for_group(name, tables))


def is_own(kind: Kind, name: str, places: Collection[str]) -> bool:
    """Return whether a topic or group is RocketMQ's own."""
    return is_own_topic(name, places) if kind is TOPIC else is_own_group(name)


def _made_for_group(name: str, tables: Tables) -> bool:
    """Return whether a retry or dead letter topic is as brokers create it.

    These have retryQueueNums of the group, or one queue for pop and for dead letters (write-only in old versions), are
    marked as ordered for a group that reads ordered topics, and have the flags of units.

    Sources: apache/rocketmq broker/.../processor/ClientManageProcessor.java (heartBeat), SendMessageProcessor.java,
    PopReviveService.java.
    """
    values = tables[TOPIC][name]
    perms, queues = {PERM_READ | PERM_WRITE}, {1}
    if name.startswith(names.RETRY_PREFIX):
        group = tables[GROUP].get(name.removeprefix(names.RETRY_PREFIX))
        queues |= {group["retry_queues"]} if group is not None else set()
    elif name.startswith(names.DLQ_PREFIX):
        perms.add(PERM_WRITE)
    else:
        return False
    usual = values["read_queues"] == values["write_queues"] and values["read_queues"] in queues
    return usual and values["perm"] in perms and not values["attributes"]
