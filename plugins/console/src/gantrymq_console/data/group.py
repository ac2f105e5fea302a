"""One consumer group: why it receives nothing, its queues with lag and owner, its members, its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import GroupClients, RequestNotServed
from gantrymq.errors import BrokerRefused, GroupNotExist
from gantrymq.plugin import names
from gantrymq.plugin.model import GroupConfig, Value
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking, or_none
from gantrymq_admin.explanations import GroupExplanation, QueueExplanation, explain_group, without_topics_of_others
from gantrymq_admin.progress import is_broadcasting, lag_sum, oldest_age, queues_of_group, totals_of
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.groups import is_system
from gantrymq_console.values import Long, optional_long, record_of

_FINE: Final = frozenset({"reading", "up-to-date", "popped", "broadcasting"})  # reasons that name no problem
_MOST_TIMES: Final = 16  # topics whose times are asked for
SHOWN: Final = 50  # findings, and topics, of the first tab
_WORSE_FIRST: Final = ("group-disabled", "nobody-online")
_COUNT: Final = "count"  # value of reasons that is added up for several queues
_NEUTRAL: Final = frozenset({"reset-pending", "not-subscribed", "lite-unsubscribed"})  # of queues


@attrs.frozen
class Finding:
    """One reason why a group receives nothing, or something to know."""

    reason: str
    sentence: str  # of the broker, in English
    where: str  # broker, or topic, brokers and queues; data of the cluster
    bad: bool
    values: Mapping[str, Value] = attrs.field(factory=dict)  # none from older brokers
    variant: str = ""  # which text of the reason fits
    topic: str = ""
    queues: tuple[tuple[str, str], ...] = ()  # broker, and ranges of queue ids


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
class GroupOverview:
    """The first tab: findings, and the lag of each topic."""

    head: GroupHead
    findings: tuple[Finding, ...]  # at most `SHOWN`
    more_findings: int
    unexplained: tuple[str, ...]  # brokers that do not explain groups
    topics: tuple[TopicLag, ...]  # at most `SHOWN`, those with the largest lag first
    more_topics: int


@attrs.frozen
class TopicLag:
    """The lag of a group on one topic."""

    topic: str
    queues: int
    behind: Long | None
    lag_ms: int | None
    partial: bool = False  # whether a broker did not answer; the sums exclude it


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


def overview_of(reports: GroupReports) -> GroupOverview:
    """Return the findings about a group, the worst first."""
    head = head_of(reports)
    found: list[Finding] = []
    told: dict[str, set[str]] = {}
    for broker, part in reports.brokers.items():
        if part.explained is None:
            found += _own_findings(reports.name, broker, part, head)
            continue
        for reason in part.explained.diagnosis:
            bad = _is_bad(reason.reason, head)
            found.append(Finding(reason.reason, reason.sentence, broker, bad, reason.values, reason.variant))
        told[broker] = {each.reason for each in part.explained.diagnosis}
    found += _of_queues(reports, told)
    found.sort(key=lambda each: (not each.bad, _WORSE_FIRST.index(each.reason) if each.reason in _WORSE_FIRST else 9))
    topics = _by_topic(reports)
    return GroupOverview(
        head,
        tuple(found[:SHOWN]),
        max(0, len(found) - SHOWN),
        tuple(broker for broker, part in reports.brokers.items() if part.explained is None),
        topics[:SHOWN],
        max(0, len(topics) - SHOWN),
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
    queues = tuple(_explained(broker, each) for each in explained.queues)
    retries = explained.retry.behind + explained.retry.waiting
    return BrokerReport(explained, queues, online, config, retries, explained.dead_letters, explained.deleted)


async def _report_without_explanation(cluster: Cluster, broker: str, address: str, group: str) -> BrokerReport | None:
    """Return the report of a broker of RocketMQ: offsets, times and members."""
    admin = cluster.admin
    config = (await admin.groups(address)).get(group)  # asking for one group would make some brokers create it
    if config is None:
        return None
    online = await admin.consumer_connections(address, group)
    found = await queues_of_group(admin, address, group, online, _MOST_TIMES)
    unexplained = {"owner": None, "last_pull_ms_ago": None, "reason": "", "sentence": ""}
    queues = tuple(
        record_of(QueueState, each, broker=broker, lag_ms=each.late_ms, **unexplained)
        for each in found
        if not each.topic.startswith(names.RETRY_PREFIX)
    )
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


def _explained(broker: str, each: QueueExplanation) -> QueueState:
    return record_of(QueueState, each, broker=broker, lag_ms=each.lag_ms if each.behind != 0 else 0)


def _of_queues(reports: GroupReports, told: Mapping[str, set[str]]) -> list[Finding]:
    """Return the findings about queues, one for all queues of a topic with the same reason and values.

    Counts are added up, and of durations the longest counts.
    """
    same: dict[Hashable, list[tuple[str, QueueExplanation]]] = {}
    for broker, words in told.items():
        part = reports.brokers[broker]
        for each in part.explained.queues if part.explained is not None else ():
            if each.reason not in _FINE and each.reason not in words:
                kept = frozenset(item for item in each.values.items() if not _is_sum(item[0])) or (
                    "" if each.values else each.sentence
                )
                same.setdefault((each.topic, each.reason, each.variant, kept), []).append((broker, each))
    return [_of_same(group) for group in same.values()]


def _is_sum(name: str) -> bool:
    """Return whether a value of several queues is one number."""
    return name == _COUNT or name.endswith("_ms")


def _of_same(group: Sequence[tuple[str, QueueExplanation]]) -> Finding:
    _, first = group[0]
    ids: dict[str, list[int]] = {}
    for broker, each in group:
        ids.setdefault(broker, []).append(each.queue)
    queues = tuple((broker, _ranges(found)) for broker, found in ids.items())
    where = f"{first.topic}, {'; '.join(' '.join(each) for each in queues)}"
    values = dict(first.values)
    for name in filter(_is_sum, first.values):
        numbers = [number for _, each in group if isinstance(number := each.values.get(name), int)]
        values[name] = sum(numbers) if name == _COUNT else max(numbers, default=None)
    sentence = first.sentence if values == first.values else ""  # not with the numbers of one queue of several
    bad = first.reason not in _NEUTRAL
    return Finding(first.reason, sentence, where, bad, values, first.variant, first.topic, queues)


def _own_findings(group: str, broker: str, part: BrokerReport, head: GroupHead) -> list[Finding]:
    """Return the findings that follow from the offsets and members alone."""
    found = []
    name = {"group": group}
    if part.config is not None and not part.config.consume_enable:
        found.append(Finding("group-disabled", "", broker, True, name))
    if part.online is None:
        found.append(Finding("nobody-online", "", broker, bool(head.lag), name))
    for word, count, bad in (
        ("retry-behind", part.retries, False),
        ("deleted-unread", part.deleted, True),
        ("dead-letters", part.dead_letters, True),
    ):
        if count:
            found.append(Finding(word, "", broker, bad, {**name, _COUNT: count}))
    return found


def _is_bad(reason: str, head: GroupHead) -> bool:
    if reason in ("retry-waiting", "retry-behind"):
        return False
    return reason != "nobody-online" or (head.lag is None and not head.may_broadcast) or bool(head.lag) or head.partial


def _by_topic(reports: GroupReports) -> tuple[TopicLag, ...]:
    partial = len(reports.brokers) < reports.asked
    topics: dict[str, list[QueueState]] = {}
    for part in reports.brokers.values():
        for queue in part.queues:
            topics.setdefault(queue.topic, []).append(queue)
    found = []
    for topic, queues in topics.items():
        lag_ms = oldest_age(queue.lag_ms for queue in queues)
        behind = optional_long(lag_sum(queue.behind for queue in queues))
        found.append(TopicLag(topic, len(queues), behind, lag_ms, partial))
    return tuple(sorted(found, key=lambda each: (-(each.behind or 0), each.topic)))


def _ranges(ids: Sequence[int]) -> str:
    """Return queue ids in words, such as ``0-3 7``."""
    found: list[list[int]] = []
    for queue in sorted(ids):
        if found and found[-1][1] == queue - 1:
            found[-1][1] = queue
        else:
            found.append([queue, queue])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
