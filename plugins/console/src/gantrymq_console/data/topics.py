"""The list of topics: kinds, queues, messages, rates, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused
from gantrymq.model import names
from gantrymq.model.topic import TopicConfig
from gantrymq_admin.summaries import MAX_ROWS, topic_summaries
from gantrymq_console.data.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import FEW, BrokerTable, Tables, each_of
from gantrymq_console.web.values import Long

__all__ = [
    "KINDS",
    "SORTS",
    "TopicList",
    "TopicRow",
    "forget_topics",
    "groups_of",
    "kind_by_name",
    "own_topics",
    "topic_list",
    "topic_tables",
]

Got = TypeVar("Got")

NAMES_AGE_S: Final = 10.0
KINDS: Final = ("user", "all", "normal", "fifo", "delay", "transaction", "retry", "dlq", "system")
SORTS: Final = ("name", "messages", "newest", "in", "out", "groups", "queues")
TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}


@attrs.frozen
class TopicPart:
    """A topic at one broker; None: unknown."""

    message_type: str | None
    read_queues: int
    messages: int
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
    partial: bool = False  # whether a broker has not told: the sums are of the others


@attrs.frozen
class TopicList:
    """A page of the list."""

    filter: str
    kind: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # topics that are at the end of the order because nothing is known of them yet
    topics: tuple[TopicRow, ...]


async def topic_list(
    cluster: Cluster, asking: Asking, contains: str, kind: str, sort: str, down: bool, start: int, rows: int
) -> TopicList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    known = await asking.needed(cluster.shared("topics", NAMES_AGE_S, cluster.admin.topics))
    own = await asking.needed(own_topics(cluster))
    by_kind = {name: kind_by_name(name, own) for name in known.value}
    broad = "normal" if kind in (*TYPES.values(), "user") else kind
    found = [
        name for name in known.value if contains.lower() in name.lower() and (broad == "all" or by_kind[name] == broad)
    ]
    tables = await topic_tables(cluster)
    masters = await cluster.masters()
    whole = sort != "name" or kind in ("normal", *TYPES.values())
    shown = found if len(found) <= FEW else [] if whole else _page(found, down, start, rows)
    await asking.all({name: tables.brokers[name].refresh(shown, found) for name in masters})
    clock = cluster.world.clock
    if not whole:
        page = await each_of(_page(found, down, start, rows), lambda name: _row(name, by_kind[name], tables), clock)
        return TopicList(contains, kind, sort, down, start, Long(len(found)), 0, tuple(page))
    made = await each_of(found, lambda name: _row(name, by_kind[name], tables), clock)
    if kind in ("normal", *TYPES.values()):
        made = [row for row in made if row.kind == kind]
    if sort == "name":
        made.sort(key=lambda row: row.name, reverse=down)
    else:
        made.sort(key=lambda row: _key(row, sort, down), reverse=down)  # equal ones stay in the order of their names
    page = made[start : start + rows]
    if len(found) > FEW:
        shown = [row.name for row in page]
        await asking.all({name: tables.brokers[name].refresh(shown, found) for name in masters})
        page = [_row(row.name, row.kind, tables) for row in page]
    return TopicList(contains, kind, sort, down, start, Long(len(made)), tables.unknown(found), tuple(page))


def forget_topics(cluster: Cluster, *changed: str) -> None:
    """Drop what is known about topics after a change."""
    cluster.forget("topics")
    tables = cluster.kept.get("topics")
    if isinstance(tables, Tables):
        tables.forget(*changed)


def kind_by_name(name: str, own: frozenset[str]) -> str:
    """Return the kind that the name alone tells; *own*: topics of the cluster itself, see `_own_topics`."""
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
    """Return what is known about topics, by broker name."""
    tables: Tables[TopicPart] = cluster.kept.setdefault("topics", Tables())

    for name, address in (await cluster.masters()).items():
        known = tables.brokers.get(name)
        if known is None or known.address != address:
            tables.brokers[name] = BrokerTable(
                cluster, "topics", address, partial(_summaries, cluster.admin), partial(_ask, cluster)
            )
    return tables


async def _summaries(admin: Admin, address: str) -> dict[str, TopicPart]:
    """Return what a broker knows about all topics. Raises RequestNotServed."""
    found: dict[str, TopicPart] = {}
    start = 0
    while True:
        page = await topic_summaries(admin, address, start=start, most=MAX_ROWS, system=True)
        for each in page.topics:
            found[each.topic] = TopicPart(
                each.message_type,
                each.read_queues,
                each.kept,
                each.newest_ms,
                each.put_per_s,
                each.got_per_s,
                each.groups,
            )
        start += MAX_ROWS
        if start >= page.total:
            return found


async def _ask(cluster: Cluster, address: str, topic: str) -> TopicPart | None:
    """Return what a broker without summaries knows about a topic, None without the topic."""
    admin = cluster.admin
    stats, groups, config, rate = await asyncio.gather(
        _or_none(admin.topic_stats(address, topic)),
        _or_none(groups_of(cluster, address, topic)),
        _config(cluster, address, topic),
        _or_none(admin.counter(address, "TOPIC_PUT_NUMS", topic)),
    )
    if stats is None:
        return None
    newest = max((each.updated_ms for each in stats.values()), default=0)
    return TopicPart(
        config.attributes.get("message.type", "") if config is not None else None,
        config.read_queues if config is not None else len(stats),
        sum(each.count for each in stats.values()),
        newest or None,
        rate.minute.per_s if rate is not None else 0.0,
        None,
        len(groups) if groups is not None else None,
    )


async def _config(cluster: Cluster, address: str, topic: str) -> TopicConfig | None:
    """Return the settings of a topic; None from a broker before 5.0, or without the topic."""
    try:
        return await cluster.admin.topic_config(address, topic)
    except BrokerRefused:  # also RequestNotServed
        return None


async def _or_none(asked: Awaitable[Got]) -> Got | None:
    """Return the answer, or None if the broker has nothing: no such topic, no such counter."""
    try:
        return await asked
    except BrokerRefused:
        return None


def _row(name: str, kind: str, tables: Tables[TopicPart]) -> TopicRow:
    aged = tables.parts(name)
    if not aged:
        return TopicRow(name, kind, None, None, None, None, None, None, None)
    parts = [each.value for each in aged]
    if kind == "normal":
        kind = TYPES.get(next((each.message_type for each in parts if each.message_type), "").upper(), kind)
    return TopicRow(
        name,
        kind,
        sum(each.read_queues for each in parts),
        Long(sum(each.messages for each in parts)),
        max((each.newest_ms for each in parts if each.newest_ms is not None), default=None),
        _sum(each.in_per_s for each in parts),
        _sum(each.out_per_s for each in parts),
        max((each.groups for each in parts if each.groups is not None), default=None),
        min(each.as_of_ms for each in aged),
        tables.partial(name),
    )


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Return the sum, or None if a number is unknown."""
    found = list(numbers)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _key(row: TopicRow, sort: str, down: bool) -> tuple[bool, Any]:
    """Return the key of a sort; unknown values are last."""
    value = {
        "messages": row.messages,
        "newest": row.newest_ms,
        "in": row.in_per_s,
        "out": row.out_per_s,
        "groups": row.groups,
        "queues": row.queues,
    }[sort]
    return (value is None) != down, value if value is not None else 0


def _page(found: Sequence[str], down: bool, start: int, rows: int) -> Sequence[str]:
    """Return the names of a page in the order of their names."""
    return sorted(found, reverse=down)[start : start + rows]
