"""The list of topics: kinds, queues, messages, rates, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
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
from gantrymq_admin.summaries import TopicSummaries
from gantrymq_admin.topics import named_after
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import (
    Column,
    ListPage,
    ListQuery,
    ListRow,
    Served,
    Tables,
    combined,
    either,
    known_sum,
    largest,
    tables_of,
    total,
)
from gantrymq_console.values import Long, optional_long

Got = TypeVar("Got")

_NAMES_AGE_S: Final = 10.0
KINDS: Final = ("user", "all", "normal", "fifo", "delay", "transaction", "retry", "dlq", "system")
_TYPE: Final = Column("type", "message_type", either)
COLUMNS: Final = {
    "messages": Column("kept", "messages", total, "kept"),
    "newest": Column("newest", "newest_ms", largest),
    "in": Column("put", "in_per_s", known_sum, "put_per_s"),
    "out": Column("got", "out_per_s", known_sum, "got_per_s"),
    "groups": Column("groups", "groups", largest),
    "queues": Column("queues", "queues", total, "read_queues"),
}
_SUMMARY: Final = (*COLUMNS.values(), _TYPE)
SORTS: Final = ("name", *COLUMNS)
TYPES: Final = {"FIFO": "fifo", "DELAY": "delay", "TRANSACTION": "transaction"}


@attrs.frozen
class TopicRow(ListRow):
    """One topic in the list; None: unknown."""

    kind: str = "normal"  # of KINDS, without "user" and "all"
    message_type: str | None = attrs.field(default=None, metadata={"json": False})
    queues: int | None = None
    messages: Long | None = attrs.field(default=None, converter=optional_long)
    newest_ms: int | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None
    groups: int | None = None  # of the broker with the most of them; in `at_least` if several brokers may have others

    @property
    def several(self) -> bool:
        """Whether `groups` is a least number although all brokers answer."""
        return "groups" in self.at_least


@attrs.frozen
class TopicList(ListPage):
    """A page of the list."""

    kind: str
    topics: tuple[TopicRow, ...]


async def topic_list(cluster: Cluster, asking: Asking, query: ListQuery) -> TopicList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    listed = await asking.needed(cluster.shared("topics", _NAMES_AGE_S, cluster.admin.topics))
    own = await asking.needed(own_topics(cluster))
    kind, wanted = query.kind, query.contains.lower()
    tables, typed = await topic_tables(cluster), kind in ("normal", *TYPES.values())
    kinds = {name: kind_by_name(name, own) for name in listed.value if wanted in name.lower()}
    broad = "normal" if typed or kind == "user" else kind
    found = [name for name, each in kinds.items() if broad in ("all", each)]
    if typed:
        types = (await tables.column(asking, _TYPE, found)).value
        found = [name for name in found if TYPES.get((types.get(name) or "").upper(), "normal") == kind]
    named = query.sort == "name"
    order = () if named else (COLUMNS[query.sort],), partial(_key, down=query.down)
    page, _ = await tables.page(asking, found, order, query, lambda name: _row(name, kinds[name], tables))
    unknown = tables.unknown(found) if typed or not named else 0
    return TopicList.of(query, len(found), unknown, not tables.complete, kind=kind, topics=page)


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
    return named_after({each.cluster for each in brokers}, {each.name for each in brokers})


async def topic_tables(cluster: Cluster) -> Tables[TopicRow]:
    """Return the known rows of topics, by broker name."""
    served = Served(cluster.admin, TopicSummaries, TopicRow, _SUMMARY)
    return await tables_of(cluster, "topics", served, partial(_ask, cluster))


async def _ask(cluster: Cluster, address: str, topic: str) -> TopicRow | None:
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
    return TopicRow(
        topic,
        message_type=config.attributes.get("message.type", "") if config is not None else None,
        queues=config.read_queues if config is not None else len(known) or None,
        messages=sum(each.count for each in known.values()) if known else None,
        newest_ms=max((each.updated_ms for each in known.values()), default=0) or None,
        in_per_s=rate,
        groups=len(groups) if groups is not None else None,
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


def _row(name: str, kind: str, tables: Tables[TopicRow]) -> TopicRow:
    row = combined(tables, TopicRow(name, kind=kind), _SUMMARY, ("in_per_s", "out_per_s"))
    if kind == "normal":
        kind = TYPES.get((row.message_type or "").upper(), kind)
    several = sum(each.value.groups != 0 for each in tables.parts(name)) > 1  # the brokers may have different groups
    return attrs.evolve(row, kind=kind, at_least=(*row.at_least, "groups") if several else row.at_least)


def _key(value: float | None, down: bool) -> tuple[bool, float]:
    """Return the key of a sort; unknown values are last."""
    return (value is None) != down, value or 0
