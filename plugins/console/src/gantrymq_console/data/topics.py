"""The list of topics: kinds, queues, messages, rates, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Final, TypeVar

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import QueueStats
from gantrymq.errors import BrokerRefused
from gantrymq.plugin import names
from gantrymq.plugin.model import MessageQueue, TopicConfig
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking, or_none
from gantrymq_admin.summaries import MAX_ROWS, topic_column, topic_summaries
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import Column, Served, Tables, known_sum, largest, tables_of, total
from gantrymq_console.web.values import Long

Got = TypeVar("Got")

_NAMES_AGE_S: Final = 10.0
KINDS: Final = ("user", "all", "normal", "fifo", "delay", "transaction", "retry", "dlq", "system")
_TYPE: Final = Column("type", "message_type", lambda one, other: one or other)
COLUMNS: Final = {
    "messages": Column("kept", "messages", total),
    "newest": Column("newest", "newest_ms", largest),
    "in": Column("put", "in_per_s", known_sum),
    "out": Column("got", "out_per_s", known_sum),
    "groups": Column("groups", "groups", largest),
    "queues": Column("queues", "queues", total),
}
SORTS: Final = ("name", *COLUMNS)
TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}


@attrs.frozen
class TopicPart:
    """A topic at one broker; None: unknown."""

    message_type: str | None
    queues: int | None
    messages: int | None
    newest_ms: int | None
    in_per_s: float | None
    out_per_s: float | None
    groups: int | None


@attrs.frozen
class TopicRow:
    """One topic in the list; None: unknown."""

    name: str
    kind: str  # of KINDS, without "user" and "all"
    queues: int | None
    messages: Long | None
    newest_ms: int | None
    in_per_s: float | None
    out_per_s: float | None
    groups: int | None
    as_of_ms: int | None
    partial: bool = False  # whether a broker did not answer; the sums exclude it
    at_least: tuple[str, ...] = ()  # fields that a broker does not report, or whose value is only a lower bound


@attrs.frozen
class TopicList:
    """A page of the list."""

    filter: str
    kind: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # topics without known values, at the end of the order
    topics: tuple[TopicRow, ...]
    partial: bool = False  # whether a broker did not list its topics


async def topic_list(
    cluster: Cluster, asking: Asking, contains: str, kind: str, sort: str, down: bool, start: int, rows: int
) -> TopicList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    listed = await asking.needed(cluster.shared("topics", _NAMES_AGE_S, cluster.admin.topics))
    own = await asking.needed(own_topics(cluster))
    tables, typed = await topic_tables(cluster), kind in ("normal", *TYPES.values())
    kinds = {name: kind_by_name(name, own) for name in listed.value if contains.lower() in name.lower()}
    broad = "normal" if typed or kind == "user" else kind
    found = [name for name, each in kinds.items() if broad in ("all", each)]
    if typed:
        types = (await tables.column(asking, _TYPE, found)).value
        found = [name for name in found if TYPES.get((types.get(name) or "").upper(), "normal") == kind]
    order, shown = (() if sort == "name" else (COLUMNS[sort],), partial(_key, down=down)), slice(start, start + rows)
    page, _ = await tables.page(asking, found, order, down, shown, lambda name: _row(name, kinds[name], tables))
    unknown = tables.unknown(found) if typed or sort != "name" else 0
    return TopicList(contains, kind, sort, down, start, Long(len(found)), unknown, page, not tables.complete)


def forget_topics(cluster: Cluster, *changed: str) -> None:
    """Drop the known rows of topics after a change."""
    cluster.forget("topics")
    tables = cluster.kept.get("topics")
    if isinstance(tables, Tables):
        tables.forget(*changed)


def kind_by_name(name: str, own: frozenset[str]) -> str:
    """Return the kind of topic *name*; *own* are the topics of the cluster itself, see `own_topics`."""
    if name.startswith(names.RETRY_PREFIX):
        return "retry"
    if name.startswith(names.DLQ_PREFIX):
        return "dlq"
    return "system" if names.is_system_topic(name) or name in own else "normal"


async def groups_of(cluster: Cluster, address: str, topic: str) -> tuple[str, ...]:
    """Return the consumer groups of a topic at one broker.

    RocketMQ 5.3.3 counts the name of the topic among them (queryTopicConsumeByWho of its ConsumerManager); it is left
    out if there is no such group.
    """
    found = await cluster.admin.groups_of_topic(address, topic)
    if topic not in found:
        return found
    known = await cluster.shared(("groups", address), 30, lambda: cluster.admin.groups(address))
    return found if topic in known.value else tuple(group for group in found if group != topic)


async def own_topics(cluster: Cluster) -> frozenset[str]:
    """Return the topics that are named for clusters and brokers."""
    brokers = await cluster.brokers()
    clusters = {each.cluster for each in brokers}
    return frozenset({*clusters, *(each.name for each in brokers), *(f"{each}_REPLY_TOPIC" for each in clusters)})


async def topic_tables(cluster: Cluster) -> Tables[TopicPart]:
    """Return the known rows of topics, by broker name."""
    admin = cluster.admin
    served = Served(partial(topic_column, admin), partial(_summaries, admin))
    return await tables_of(cluster, "topics", served, partial(_ask, cluster))


async def _summaries(admin: Admin, address: str, names: Collection[str]) -> tuple[dict[str, TopicPart], int]:
    """Return the rows of a broker for some topics, and their age. Raises RequestNotServed."""
    page = await topic_summaries(admin, address, most=MAX_ROWS, system=True, names=names)
    found = {
        each.topic: TopicPart(
            each.message_type,
            each.read_queues,
            each.kept,
            each.newest_ms,
            each.put_per_s,
            each.got_per_s,
            each.groups,
        )
        for each in page.topics
    }
    return found, page.age_ms


async def _ask(cluster: Cluster, address: str, topic: str) -> TopicPart | None:
    """Return the row of a topic at a broker without summaries, None without the topic."""
    admin = cluster.admin
    stats, groups, config, rate = await asyncio.gather(
        _unless_refused(stats_at(admin, address, topic)),
        _unless_refused(groups_of(cluster, address, topic)),
        _config(cluster, address, topic),
        _unless_refused(put_rate(admin, address, topic)),
    )
    if stats == {}:
        return None
    known = stats or {}
    return TopicPart(
        config.attributes.get("message.type", "") if config is not None else None,
        config.read_queues if config is not None else len(known) or None,
        sum(each.count for each in known.values()) if known else None,
        max((each.updated_ms for each in known.values()), default=0) or None,
        rate,
        None,
        len(groups) if groups is not None else None,
    )


async def _config(cluster: Cluster, address: str, topic: str) -> TopicConfig | None:
    """Return the settings of a topic; None from a broker before 5.0, or without the topic."""
    try:
        return await cluster.admin.topic_config(address, topic)
    except BrokerRefused:  # also RequestNotServed
        return None


async def _unless_refused(asked: Awaitable[Got]) -> Got | None:
    """Return the answer; None if the broker refuses it, for any reason."""
    try:
        return await asked
    except BrokerRefused:
        return None


async def stats_at(admin: Admin, address: str, topic: str) -> Mapping[MessageQueue, QueueStats]:
    """Return the offsets of the queues of a topic at one broker; without the topic there are none."""
    # The name servers will learn that it has no such topic.
    return await or_none(admin.topic_stats(address, topic), ResponseCode.TOPIC_NOT_EXIST) or {}


async def put_rate(admin: Admin, address: str, topic: str) -> float:
    """Return the messages sent per second over the last minute; a broker without a counter has got none yet."""
    counter = await or_none(admin.counter(address, "TOPIC_PUT_NUMS", topic), ResponseCode.SYSTEM_ERROR)
    return counter.minute.per_s if counter is not None else 0.0


def _row(name: str, kind: str, tables: Tables[TopicPart]) -> TopicRow:
    aged = tables.parts(name)
    if not aged:
        return TopicRow(name, kind, None, None, None, None, None, None, None)
    parts = [each.value for each in aged]
    if kind == "normal":
        kind = TYPES.get(next((each.message_type for each in parts if each.message_type), "").upper(), kind)
    values = {each.attribute: each.of(parts) for each in COLUMNS.values()}
    as_of_ms = min(each.as_of_ms for each in aged)
    at_least = [which for which in ("in_per_s", "out_per_s") if any(getattr(each, which) is None for each in parts)]
    if sum(each.groups != 0 for each in parts) > 1:  # the brokers may have different groups
        at_least.append("groups")
    return TopicRow(
        name,
        kind,
        values["queues"],
        None if values["messages"] is None else Long(values["messages"]),
        values["newest_ms"],
        values["in_per_s"],
        values["out_per_s"],
        values["groups"],
        as_of_ms,
        tables.partial(name),
        tuple(at_least),
    )


def _key(value: float | None, down: bool) -> tuple[bool, float]:
    """Return the key of a sort; unknown values are last."""
    return (value is None) != down, value or 0
