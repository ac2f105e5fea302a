"""One consumer group: the reports of brokers, and its queues with lag and owner."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import GroupClients, RequestNotServed
from gantrymq.errors import BrokerRefused, GroupNotExist
from gantrymq.plugin import names
from gantrymq.plugin.model import GroupConfig, MessageQueue, Value
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking, or_none
from gantrymq_admin.explanations import GroupExplanation, QueueExplanation, explain_group, without_topics_of_others
from gantrymq_admin.progress import GroupQueue, is_broadcasting, lag_sum, oldest_age, queues_of_group, totals_of
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.groups import is_system
from gantrymq_console.data.held_queues import HeldQueues, ask_held_queues
from gantrymq_console.values import Long, optional_long, record_of

FINE: Final = frozenset({"reading", "up-to-date", "popped", "broadcasting"})  # reasons that name no problem
SLOW: Final = "slow"  # a reason that names no stop
_NEUTRAL: Final = frozenset({"reset-pending", "not-subscribed", "lite-unsubscribed", SLOW})
_STOPS: Final = frozenset({"not-committed", "order-stuck", "paused"})  # reasons of a member that does not commit
_MOST_TIMES: Final = 16  # topics whose times are asked for


@attrs.frozen
class QueueState:
    """One queue of a group; None: unknown."""

    topic: str
    broker: str
    queue: int
    owner: str | None
    committed: Long | None = attrs.field(converter=optional_long)
    max_offset: Long = attrs.field(converter=Long)
    behind: Long | None = attrs.field(converter=optional_long)
    lag_ms: int | None
    last_pull_ms_ago: int | None
    reason: str  # empty: the broker does not report it
    sentence: str
    values: Mapping[str, Value] = attrs.field(factory=dict)
    variant: str = ""
    owner_known: bool = True  # whether no owner means that nobody reads it
    min_offset: Long | None = attrs.field(default=None, converter=optional_long)
    pulled: Long | None = attrs.field(default=None, converter=optional_long)  # next offset of the last pull
    moved_ms_ago: int | None = None  # the committed offset changed, or its reader began to pull
    owner_online: bool = True  # whether its owner is a member that is online, so that it has a page
    halted: bool = False  # whether its owner has pulled or consumed nothing for a minute, as the owner says

    @property
    def is_unsure(self) -> bool:
        """Whether its member may be slow only: older brokers do not look when the committed offset last changed."""
        return self.reason in _STOPS and self.moved_ms_ago is None

    @property
    def sign(self) -> str:
        """The sign of its reason: good, neutral, warn or bad."""
        if self.reason in FINE:
            return "good"
        return "neutral" if self.reason in _NEUTRAL else "warn" if self.is_unsure else "bad"


@attrs.frozen
class GroupHead:
    """Figures above the tabs of a group; None: unknown."""

    name: str
    system: bool
    members: int | None
    lag: Long | None
    late_ms: int | None
    retries: Long | None
    dead_letters: Long | None
    enabled: bool | None
    topics: tuple[str, ...]  # without retry topics
    partial: bool = False  # whether a broker did not answer; the sums exclude it
    may_broadcast: bool = False
    """Whether brokers have no offset and no member of the group, and permit it to broadcast (members keep offsets)."""
    deleted: Long | None = None  # messages that were deleted before the group read them
    pops: bool = False  # whether members pop: popped messages without an acknowledgement are not in the lag


@attrs.frozen
class GroupQueues:
    """The tab with the queues, those with the largest lag first."""

    head: GroupHead
    start: int
    total: int
    queues: tuple[QueueState, ...]


@attrs.frozen
class BrokerReport:
    """The report of one broker about a group."""

    explained: GroupExplanation | None  # None: the broker does not explain groups
    queues: tuple[QueueState, ...]
    online: GroupClients | None
    config: GroupConfig | None
    retries: int | None
    dead_letters: int | None
    deleted: int  # messages that were deleted before the group read them


@attrs.frozen
class GroupReports:
    """The reports of all brokers about a group."""

    name: str
    asked: int  # number of brokers that were asked
    brokers: Mapping[str, BrokerReport]


async def group_reports(cluster: Cluster, asking: Asking, group: str) -> GroupReports:
    """Return the reports of brokers about a group; brokers without the group are left out.

    Raises:
        GroupNotExist: all brokers answered, and none knows it.
    """
    readers = await readers_of(cluster, asking)
    found = await asking.all({name: _report(cluster, name, at, group) for name, at in readers.items()})
    known = _without_topics_of_others({name: each for name, each in found.items() if each is not None})
    if not known and len(found) == len(readers):
        raise GroupNotExist(f"there is no group {group}")
    return GroupReports(group, len(readers) - (len(found) - len(known)), known)


def _without_topics_of_others(brokers: Mapping[str, BrokerReport]) -> dict[str, BrokerReport]:
    told = without_topics_of_others({name: each.explained for name, each in brokers.items() if each.explained})
    return {name: attrs.evolve(each, explained=told.get(name)) for name, each in brokers.items()}


def head_of(reports: GroupReports) -> GroupHead:
    """Return the head of a group's pages."""
    parts = list(reports.brokers.values())
    blind = any(part.explained is None and is_broadcasting(part.online) for part in parts)
    partial = len(parts) < reports.asked
    queues = [queue for part in parts for queue in part.queues]
    configs = [part.config for part in parts if part.config is not None]
    is_blank = not queues and not any(part.online for part in parts)
    may_broadcast = is_blank and any(each.consume_broadcast_enable for each in configs)
    known = bool(parts) and not blind and not may_broadcast
    retries = [part.retries for part in parts]
    dead = [part.dead_letters for part in parts]
    lag = optional_long(lag_sum(queue.behind for queue in queues))
    return GroupHead(
        reports.name,
        is_system(reports.name),
        max((len(part.online.clients) if part.online else 0 for part in parts), default=0) or (None if partial else 0),
        lag if known else None,
        oldest_age(queue.lag_ms for queue in queues) if known and lag is not None else None,
        Long(sum(each or 0 for each in retries)) if parts and None not in retries else None,
        Long(sum(each or 0 for each in dead)) if parts and None not in dead else None,
        all(each.consume_enable for each in configs) if configs else None,
        tuple(sorted({queue.topic for queue in queues if not queue.topic.startswith(names.RETRY_PREFIX)})),
        partial,
        may_broadcast,
        Long(sum(part.deleted for part in parts)) if parts else None,
        any(part.online is not None and part.online.pops for part in parts),
    )


def queues_of(reports: GroupReports, topic: str, start: int, rows: int) -> GroupQueues:
    """Return a page of the queues of a group, those with the largest lag first."""
    queues = [queue for part in reports.brokers.values() for queue in part.queues if topic in ("", queue.topic)]
    queues.sort(key=lambda each: (-(each.behind or 0), each.topic, each.broker, each.queue))
    return GroupQueues(head_of(reports), start, len(queues), tuple(queues[start : start + rows]))


async def _report(cluster: Cluster, broker: str, address: str, group: str) -> BrokerReport | None:
    admin = cluster.admin
    try:
        explained = await explain_group(admin, address, group)
    except RequestNotServed:
        return await _report_without_explanation(cluster, broker, address, group)
    except BrokerRefused as problem:
        if problem.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            return None
        raise
    online, config = await asyncio.gather(admin.consumer_connections(address, group), _config(cluster, address, group))
    members = frozenset(() if online is None else (each.client_id for each in online.clients))
    queues = tuple(_explained(broker, each, members) for each in explained.queues)
    retries = explained.retry.behind + explained.retry.waiting
    return BrokerReport(explained, queues, online, config, retries, explained.dead_letters, explained.deleted)


async def _report_without_explanation(cluster: Cluster, broker: str, address: str, group: str) -> BrokerReport | None:
    """Return the report of a broker of RocketMQ: offsets, times and members."""
    admin = cluster.admin
    config = (await admin.groups(address)).get(group)  # asking for one group would make some brokers create it
    if config is None:
        return None
    online = await admin.consumer_connections(address, group)
    found, held = await asyncio.gather(
        queues_of_group(admin, address, group, online, _MOST_TIMES),
        ask_held_queues(cluster, address, group, online),
    )
    queues = tuple(_unexplained(broker, each, held) for each in found if not each.topic.startswith(names.RETRY_PREFIX))
    retries = sum(each.behind or 0 for each in found if each.topic.startswith(names.RETRY_PREFIX))
    deleted = totals_of(found).deleted
    return BrokerReport(None, queues, online, config, retries, await _dead_letters(admin, address, group), deleted)


async def _dead_letters(admin: Admin, address: str, group: str) -> int | None:
    """Return the number of dead letters at a broker; None if it refuses to say."""
    try:
        found = await or_none(admin.topic_stats(address, names.dead_letter_topic(group)), ResponseCode.TOPIC_NOT_EXIST)
    except BrokerRefused:
        return None
    return sum(each.count for each in (found or {}).values())


async def _config(cluster: Cluster, address: str, group: str) -> GroupConfig | None:
    try:
        return await cluster.admin.group_config(address, group)
    except (BrokerRefused, GroupNotExist):
        return None


def _explained(broker: str, each: QueueExplanation, members: Set[str]) -> QueueState:
    lag_ms = each.lag_ms if each.behind != 0 else 0
    online = each.owner in members
    return record_of(QueueState, each, broker=broker, lag_ms=lag_ms, pulled=each.next_pull, owner_online=online)


def _unexplained(broker: str, each: GroupQueue, held: HeldQueues) -> QueueState:
    holder = held.queues.get(MessageQueue(each.topic, broker, each.queue))
    pulled = each.pulled if each.pulled > 0 else None
    if pulled is None and holder is not None:
        pulled = each.committed + holder.cached
    return record_of(
        QueueState,
        each,
        broker=broker,
        lag_ms=each.late_ms,
        owner=holder.client_id if holder is not None else None,
        owner_known=held.complete,
        last_pull_ms_ago=holder.pulled_ms_ago if holder is not None else None,
        pulled=pulled,
        halted=holder is not None and holder.halts(each.late_ms),
        reason="",
        sentence="",
    )
