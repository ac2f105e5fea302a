"""One topic: its queues with offsets and times, its consumer groups, its producers, its settings at each broker."""

from __future__ import annotations

import asyncio
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import QueueStats
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.client import TopicRoute
from gantrymq.plugin.model import MessageQueue, TopicConfig
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking
from gantrymq_admin.progress import ages_of, lag_sum, oldest_age, progress_of
from gantrymq_admin.summaries import version_name
from gantrymq_admin.topics import hidden_messages, present_topic
from gantrymq_console.data.cluster import Cluster, readable_of, route_of
from gantrymq_console.data.table import limited
from gantrymq_console.data.topic_shares import TopicShares, shares_of
from gantrymq_console.data.topics import TYPES, groups_of, kind_by_name, own_topics, put_rate, stats_at
from gantrymq_console.values import Long, optional_long, record_of
from gantrymq_console.web.pages import BadInput

_FIRST: Final = 0.6  # share of the deadline for the head, so that other brokers are still asked after a silent one
_MOST_CLIENTS: Final = 200  # of a topic's groups on one page


@attrs.frozen
class TopicHead:
    """Figures above the tabs of a topic."""

    name: str
    kind: str
    queues: int  # to read, at all brokers
    messages: Long | None
    newest_ms: int | None
    in_per_s: float | None
    brokers: tuple[str, ...]
    partial: bool = False  # whether a broker did not answer; the sums exclude it
    rates: dict[str, float] = attrs.field(factory=dict)  # messages in per second, by broker


@attrs.frozen
class QueueRow:
    """One queue; None: unknown, or without messages."""

    broker: str
    queue: int
    min_offset: Long
    max_offset: Long
    messages: Long
    oldest_ms: int | None
    newest_ms: int | None


@attrs.frozen
class BrokerRoute:
    """A topic at one broker, as in the route that name servers return to clients."""

    broker: str
    cluster: str
    addresses: tuple[str, ...]
    read_queues: int
    write_queues: int
    readable: bool
    writable: bool


@attrs.frozen
class TopicQueues:
    """The tab with the queues."""

    head: TopicHead
    route: tuple[BrokerRoute, ...]
    order: str  # "broker:count;..." if the topic is ordered cluster-wide
    start: int
    total: int
    queues: tuple[QueueRow, ...]
    shares: TopicShares


@attrs.frozen
class Reader:
    """A group that reads a topic; None: unknown."""

    group: str
    members: int | None
    lag: Long | None
    late_ms: int | None  # age of the oldest message that it has not consumed
    partial: bool = False  # whether a broker did not answer; the sums exclude it


@attrs.frozen
class ReaderClient:
    """A member of a group that reads a topic."""

    group: str
    client_id: str
    address: str
    language: str
    version: str = attrs.field(converter=version_name)  # of the protocol
    subscription: str  # expression; empty: the group does not subscribe to the topic any more


@attrs.frozen
class TopicGroups:
    """The tab with the consumer groups."""

    head: TopicHead
    start: int
    total: int
    groups: tuple[Reader, ...]
    clients: tuple[ReaderClient, ...]  # of the groups on this page
    partial: bool = False  # whether a broker did not list its groups


@attrs.frozen
class Sender:
    """A connected client of a producer group."""

    group: str
    client_id: str
    address: str
    language: str
    version: str = attrs.field(converter=version_name)  # of the protocol


@attrs.frozen
class TopicProducers:
    """The tab with the producers: all that are connected to the topic's brokers.

    Brokers do not know which producer sends to which topic.
    """

    head: TopicHead
    start: int
    total: int
    producers: tuple[Sender, ...]


@attrs.frozen
class BrokerSettings:
    """The settings of a topic at one broker."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool
    attributes: dict[str, str]
    complete: bool  # False: the broker is older than 5.0, and reports only the number of queues


@attrs.frozen
class TopicSettings:
    """The tab with the settings."""

    head: TopicHead
    brokers: tuple[BrokerSettings, ...]


Stats = dict[MessageQueue, QueueStats]


async def topic_head(cluster: Cluster, asking: Asking, topic: str) -> tuple[TopicHead, TopicRoute, Stats]:
    """Return the head, the route and the offsets of a topic. Raises NoRoute: no name server knows it."""
    route = await route_of(cluster, asking, topic)
    kind = kind_by_name(topic, await asking.needed(own_topics(cluster)))
    masters, is_partial = readable_of(route), bool(asking.missing)
    found, rates, configs = await asyncio.gather(
        asking.all({name: stats_at(cluster.admin, at, topic) for name, at in masters.items()}, _FIRST),
        asking.all({name: put_rate(cluster.admin, at, topic) for name, at in masters.items()}, _FIRST),
        asking.all({name: present_config(cluster, at, topic) for name, at in masters.items()}, _FIRST),
    )
    stats: Stats = {queue: each for part in found.values() for queue, each in part.items()}
    known = next((each for each in configs.values() if each is not None), None)
    if kind == "normal" and known is not None:
        kind = TYPES.get(known.attributes.get("message.type", "").upper(), kind)
    head = TopicHead(
        topic,
        kind,
        sum(grant.read_queues for grant in route.queues),
        Long(sum(each.count for each in stats.values())) if found else None,
        max((each.updated_ms for each in stats.values()), default=0) or None,
        sum(rates.values()) if rates else None,
        tuple(broker.name for broker in route.brokers),
        is_partial or len(found) < len(masters) or len(rates) < len(masters),
        rates,
    )
    return head, route, stats


async def topic_queues(cluster: Cluster, asking: Asking, topic: str, start: int, rows: int) -> TopicQueues:
    """Return a page of the queues of a topic. Raises NoRoute."""
    head, route, stats = await topic_head(cluster, asking, topic)
    queues = sorted(stats)
    page = queues[start : start + rows]
    oldest: dict[MessageQueue, int | None] = {}

    async def ask(queue: MessageQueue) -> None:
        oldest[queue] = await cluster.admin.oldest_stored_ms(queue)

    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in page:
        if stats[queue].count:
            by_broker.setdefault(queue.broker_name, []).append(queue)
    await asking.all({broker: limited(each, ask) for broker, each in by_broker.items()})
    shown = [
        QueueRow(
            queue.broker_name,
            queue.queue_id,
            Long(stats[queue].min_offset),
            Long(stats[queue].max_offset),
            Long(stats[queue].count),
            oldest.get(queue),
            stats[queue].updated_ms or None,
        )
        for queue in page
    ]
    shares = shares_of(head.brokers, stats, head.rates)
    return TopicQueues(head, _route(route), route.order, start, len(queues), tuple(shown), shares)


async def topic_groups(cluster: Cluster, asking: Asking, topic: str, start: int, rows: int) -> TopicGroups:
    """Return a page of the groups that read a topic, and their members. Raises NoRoute."""
    head, route, _ = await topic_head(cluster, asking, topic)
    masters, admin, is_partial = readable_of(route), cluster.admin, head.partial
    found = await asking.all({name: groups_of(cluster, at, topic) for name, at in masters.items()}, _FIRST)
    groups = sorted({group for part in found.values() for group in part})
    page = groups[start : start + rows]
    readers: list[Reader] = []
    clients: dict[tuple[str, str, str], ReaderClient] = {}
    parts: dict[str, list[tuple[int, int | None, int | None]]] = {group: [] for group in page}

    async def ask(at: str, group: str) -> None:
        online = await admin.consumer_connections(at, group)
        progress = await progress_of(admin, at, group, online, topic)
        late = oldest_age((await ages_of(admin, at, group, progress)).values())
        for each in online.clients if online is not None else ():
            wanted = next((one.expression for one in online.subscriptions if one.topic == topic), "") if online else ""
            member = record_of(ReaderClient, each, group=group, subscription=wanted)
            clients[group, each.client_id, each.address.rpartition(":")[0]] = member
        members = len(online.clients) if online is not None else 0
        parts[group].append((members, lag_sum(each.lag for each in progress.values()), late))

    async def ask_all(at: str) -> None:
        await limited(page, lambda group: ask(at, group))

    await asking.all({name: ask_all(at) for name, at in masters.items()})
    for group in page:
        done = parts[group]
        partial = len(done) < len(masters) or is_partial
        readers.append(
            Reader(
                group,
                max((each[0] for each in done), default=0) or (None if partial else 0),
                optional_long(lag_sum(each[1] for each in done)) if done else None,
                oldest_age(each[2] for each in done) if done else None,
                partial,
            )
        )
    listed = [clients[key] for key in sorted(clients)][:_MOST_CLIENTS]
    return TopicGroups(head, start, len(groups), tuple(readers), tuple(listed), is_partial or len(found) < len(masters))


async def topic_producers(cluster: Cluster, asking: Asking, topic: str, start: int, rows: int) -> TopicProducers:
    """Return a page of the producers connected to the brokers of a topic. Raises NoRoute."""
    head, route, _ = await topic_head(cluster, asking, topic)
    found = await asking.all({name: cluster.admin.producers(at) for name, at in readable_of(route).items()})
    senders = {
        (group, each.client_id): record_of(Sender, each, group=group)
        for part in found.values()
        for group, listed in part.items()
        for each in listed
    }
    listed = [senders[key] for key in sorted(senders)]
    return TopicProducers(head, start, len(listed), tuple(listed[start : start + rows]))


async def topic_settings(cluster: Cluster, asking: Asking, topic: str) -> TopicSettings:
    """Return the settings of a topic at each broker. Raises NoRoute."""
    head, route, _ = await topic_head(cluster, asking, topic)
    found = await asking.all({name: present_config(cluster, at, topic) for name, at in readable_of(route).items()})
    brokers = []
    for grant in route.queues:
        if grant.broker_name not in found:
            continue
        config = found[grant.broker_name]
        shown = config or TopicConfig(topic, grant.read_queues, grant.write_queues, grant.perm)
        brokers.append(
            record_of(
                BrokerSettings,
                shown,
                broker=grant.broker_name,
                attributes=dict(sorted(shown.attributes.items())),
                complete=config is not None,
            )
        )
    return TopicSettings(head, tuple(brokers))


async def present_config(cluster: Cluster, address: str, topic: str) -> TopicConfig | None:
    """Return the settings of a topic; None from a broker before 5.0, or without the topic.

    Raises ClientError: no answer.
    """
    try:
        return await cluster.admin.topic_config(address, topic)
    except BrokerRefused as problem:
        if problem.response_code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            return None
        raise


def _route(route: TopicRoute) -> tuple[BrokerRoute, ...]:
    found = []
    for grant in route.queues:
        broker = route.broker(grant.broker_name)
        found.append(
            BrokerRoute(
                grant.broker_name,
                broker.cluster if broker is not None else "",
                tuple(f"{number}: {at}" for number, at in sorted(broker.addresses.items()))
                if broker is not None
                else (),
                grant.read_queues,
                grant.write_queues,
                bool(grant.perm & 4),
                bool(grant.perm & 2),
            )
        )
    return tuple(found)


@attrs.frozen
class BrokerChange:
    """A change of a topic's settings at one broker."""

    broker: str
    changes: tuple[tuple[str, str, str], ...]  # setting, old and new value; old is empty for a new topic
    hidden: Long  # messages in queues that consumers would not see any more


@attrs.frozen
class TopicChange:
    """A change of a topic."""

    topic: str
    new: bool
    brokers: tuple[BrokerChange, ...]
    hidden: Long
    first_write: int | None  # number of write queues for the first of two steps that hide nothing
    gone: tuple[str, ...] = ()  # brokers that the change does not reach


@attrs.frozen
class TopicDeletion:
    """The end of a topic."""

    topic: str
    messages: Long | None
    groups: tuple[tuple[str, int | None, Long | None], ...]  # name, members, unread messages
    groups_total: int
    unread: Long | None
    partial: bool = False  # whether a broker did not answer: there may be more groups
    gone: tuple[str, ...] = ()  # brokers that the deletion does not reach, which keep the topic if they have it


async def masters_of(cluster: Cluster, named: str) -> dict[str, str]:
    """Return the masters of the cluster *named*, or of the only one, by broker name. Raises BadInput: not clear."""
    brokers = [each for each in await cluster.brokers() if each.broker_id == 0]
    clusters = sorted({each.cluster for each in brokers})
    if (named and named not in clusters) or (not named and len(clusters) != 1):
        raise BadInput("topics.which_cluster", clusters=", ".join(clusters) or "-")
    return {each.name: each.address for each in brokers if not named or each.cluster == named}


async def change_of(admin: Admin, masters: dict[str, str], wanted: TopicConfig) -> TopicChange:
    """Return the changes at *masters* that make the topic *wanted*; its attributes begin with ``+`` or ``-``."""
    brokers = []
    first_write: int | None = None
    new = True
    for name, address in masters.items():
        present = await present_topic(admin, address, wanted.name)
        hidden = 0
        if present is None:
            pairs = [(key, "", value) for key, value in _shown(wanted).items()]
            pairs += [(key.lstrip("+"), "", value) for key, value in wanted.attributes.items() if key.startswith("+")]
        else:
            new = False
            old = _shown(present)
            pairs = [(key, old[key], value) for key, value in _shown(wanted).items() if value != old[key]]
            pairs += _attribute_changes(present, wanted)
            gone = await hidden_messages(admin, address, present, wanted)
            hidden = gone.messages if gone is not None else 0
            if wanted.read_queues < present.read_queues and present.write_queues > wanted.read_queues:
                first_write = min(first_write or wanted.read_queues, wanted.read_queues)
        brokers.append(BrokerChange(name, tuple(pairs), Long(hidden)))
    total = sum(each.hidden for each in brokers)
    return TopicChange(wanted.name, new, tuple(brokers), Long(total), first_write)


async def deletion_of(cluster: Cluster, asking: Asking, topic: str) -> TopicDeletion:
    """Return the data that would be lost with a topic. Raises NoRoute."""
    found = await topic_groups(cluster, asking, topic, 0, 200)
    listed = tuple((each.group, each.members, None if each.partial else each.lag) for each in found.groups)
    lags = [lag for _, _, lag in listed]
    unread = None if any(each is None for each in lags) else Long(sum(each for each in lags if each is not None))
    messages = None if found.head.partial else found.head.messages
    gone = tuple(sorted({each.what for each in asking.missing}))
    return TopicDeletion(topic, messages, listed, found.total, unread, found.partial or found.head.partial, gone)


def _shown(config: TopicConfig) -> dict[str, str]:
    return {
        "read_queues": str(config.read_queues),
        "write_queues": str(config.write_queues),
        "perm": str(config.perm),
        "order": "true" if config.order else "false",
    }


def _attribute_changes(present: TopicConfig, wanted: TopicConfig) -> list[tuple[str, str, str]]:
    found = []
    for key, value in wanted.attributes.items():
        name = key[1:]
        old, new = present.attributes.get(name, ""), value if key.startswith("+") else ""
        if old != new:
            found.append((name, old, new))
    return found
