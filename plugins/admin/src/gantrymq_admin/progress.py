"""Progress of a consumer group at one broker, with the same lag whether the broker reports it or not.

Brokers of GantryMQ report the lag of each queue. For others it is computed here in the same way: clamped to the
messages that exist, and not known of a group that broadcasts, because its members keep their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import GroupClient, GroupClients, QueueProgress
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.client import reply_header
from gantrymq.plugin.headers import Header, OffsetResponse, QueryConsumerOffsetRequest, header_of
from gantrymq.plugin.model import POPS, MessageQueue, Subscription
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq.plugin.remoting import RequestCode, ResponseCode

__all__ = [
    "MOST_TOPICS",
    "GroupMembers",
    "GroupQueue",
    "GroupTotals",
    "ages_of",
    "committed_at",
    "delete_offsets",
    "is_broadcasting",
    "lag_sum",
    "members_of",
    "oldest_age",
    "progress_of",
    "queues_of_group",
    "totals_of",
]

MOST_TOPICS: Final = 8  # topics of a group that are asked for one by one
DELETE_OFFSETS: Final = cast(RequestCode, 65027)


@attrs.frozen
class GroupQueue:
    """Progress of a group in one queue; None: not known."""

    topic: str
    broker: str  # its name
    queue: int
    max_offset: int
    committed: int  # 0 without a commit
    behind: int | None
    pulled: int
    last_stored_ms: int  # store time of the last message consumed, 0 without one
    late_ms: int | None  # age of the next message to consume; 0 without one
    deleted: int | None  # messages deleted before the group consumed them


@attrs.frozen
class GroupTotals:
    """Sums over queues of a group."""

    behind: int | None  # None: not known
    late_ms: int | None  # age of the oldest message not consumed; 0 without one; None: not known
    deleted: int  # messages deleted before the group consumed them, where that is known
    deleted_known: bool  # False: `deleted` is a lower bound


@attrs.frozen
class GroupMembers:
    """The members of a group that are online at several brokers, and their subscriptions."""

    clients: tuple[tuple[str, GroupClient], ...]  # with the broker that each is connected to
    subscriptions: tuple[Subscription, ...]  # sorted by topic
    consume_type: str  # empty without members, also the next two
    message_model: str
    consume_from_where: str


@header_of(DELETE_OFFSETS)
class DeleteOffsetsRequest(Header):
    """Delete the committed offsets of a group for one topic."""

    consumer_group: str
    topic: str


def is_broadcasting(online: GroupClients | None) -> bool:
    """Return whether the members of a group broadcast."""
    return online is not None and online.message_model == "BROADCASTING"


async def progress_of(
    admin: Admin, address: str, group: str, online: GroupClients | None, topic: str | None = None
) -> dict[MessageQueue, QueueProgress]:
    """Return the progress of a group, also on topics that its members subscribe to and have committed nothing for.

    Brokers leave these out unless they are named.

    Args:
        admin: started.
        address: ip:port of the broker.
        group: its name.
        online: its members at this broker.
        topic: only this topic.
    """
    found = await admin.group_progress(address, group, topic)
    broadcasting = is_broadcasting(online)
    if online is not None and topic is None and not broadcasting:
        known = {queue.topic for queue in found}
        wanted = [each.topic for each in online.subscriptions if not each.topic.startswith(RETRY_PREFIX)]
        for name in [each for each in wanted if each not in known][:MOST_TOPICS]:
            found |= await admin.group_progress(address, group, name)
    foreign = [queue for queue, each in found.items() if each.deleted is None and each.lag]
    if broadcasting:
        found |= {queue: attrs.evolve(found[queue], lag=None) for queue in foreign if not _is_retry(queue)}
        return found
    for name in sorted({queue.topic for queue in foreign})[:MOST_TOPICS]:
        found |= await _clamped(admin, address, name, {queue: found[queue] for queue in foreign if queue.topic == name})
    return found


async def queues_of_group(
    admin: Admin, address: str, group: str, online: GroupClients | None, most_times: int | None = None
) -> list[GroupQueue]:
    """Return the queues of a group at one broker, sorted.

    Args:
        admin: started.
        address: ip:port of the broker.
        group: its name.
        online: its members at this broker.
        most_times: number of topics with a lag whose ages are requested; None for all.
    """
    progress = await progress_of(admin, address, group, online)
    ages = await ages_of(admin, address, group, progress, most_times)
    return [
        GroupQueue(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            each.max_offset,
            each.committed,
            each.lag,
            each.pulled,
            each.last_stored_ms,
            ages[queue],
            each.deleted,
        )
        for queue, each in progress.items()
    ]


async def ages_of(
    admin: Admin, address: str, group: str, progress: dict[MessageQueue, QueueProgress], most: int | None = None
) -> dict[MessageQueue, int | None]:
    """Return the age of the oldest message of each queue that the group has not consumed; None: not known.

    Queues without a lag have the age 0. *most*: number of topics to ask for; the others are not known.
    """
    found: dict[MessageQueue, int | None] = {queue: None if each.lag is None else 0 for queue, each in progress.items()}
    behind = {queue for queue, each in progress.items() if each.lag}
    found |= dict.fromkeys(behind)
    for topic in sorted({queue.topic for queue in behind})[:most]:
        try:
            times = await admin.group_times(address, group, topic)
        except BrokerRefused:
            continue
        found |= {queue: each.late_ms for queue, each in times.items() if queue in behind}
    return found


async def delete_offsets(admin: Admin, address: str, group: str, topic: str) -> tuple[int, ...]:
    """Delete the committed offsets of a group for one topic at a master, and return the queues that had one.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: online members read the topic, or it is a slave.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    header, what = DeleteOffsetsRequest(consumer_group=group, topic=topic), f"offsets of group {group}"
    return await admin.request_parsed(address, DELETE_OFFSETS, _queues, header, what=what)


def _queues(found: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(each) for each in found["queues"])


def totals_of(queues: Sequence[GroupQueue]) -> GroupTotals:
    """Return the sums over *queues*."""
    return GroupTotals(
        lag_sum(each.behind for each in queues),
        oldest_age(each.late_ms for each in queues),
        sum(each.deleted or 0 for each in queues),
        all(each.behind == 0 or each.deleted is not None for each in queues),
    )


def members_of(online: Mapping[str, GroupClients | None]) -> GroupMembers:
    """Return the members of a group that brokers report, None without members.

    Of several subscriptions to a topic, the one that the first broker reports counts.
    """
    reports = {broker: each for broker, each in online.items() if each is not None}
    last = next(reversed(reports.values()), None)
    subscriptions: dict[str, Subscription] = {}
    for report in reports.values():
        for each in report.subscriptions:
            subscriptions.setdefault(each.topic, each)
    return GroupMembers(
        tuple((broker, client) for broker, report in reports.items() for client in report.clients),
        tuple(subscriptions[topic] for topic in sorted(subscriptions)),
        "" if last is None else POPS if last.pops else last.consume_type,
        last.message_model if last is not None else "",
        last.consume_from_where if last is not None else "",
    )


def lag_sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of lags, None if one is not known."""
    lags = list(numbers)
    known = [each for each in lags if each is not None]
    return sum(known) if len(known) == len(lags) else None


def oldest_age(ages: Iterable[int | None]) -> int | None:
    """Return the largest age, 0 without any, None if one is not known."""
    every = list(ages)
    known = [each for each in every if each is not None]
    return max(known, default=0) if len(known) == len(every) else None


async def _clamped(
    admin: Admin, address: str, topic: str, progress: dict[MessageQueue, QueueProgress]
) -> dict[MessageQueue, QueueProgress]:
    """Return *progress* on a topic with lags that count only messages that exist."""
    try:
        stats = await admin.topic_stats(address, topic)
    except BrokerRefused:  # deleted meanwhile
        return progress
    found = dict(progress)
    for queue, each in progress.items():
        first = stats[queue].min_offset if queue in stats else 0
        if each.committed >= first:
            found[queue] = attrs.evolve(each, deleted=0)
        else:
            deleted = first - each.committed if each.committed else None  # 0 may mean that there is no commit
            found[queue] = attrs.evolve(each, lag=max(0, each.max_offset - first), deleted=deleted)
    return found


def _is_retry(queue: MessageQueue) -> bool:
    return queue.topic.startswith(RETRY_PREFIX)


async def committed_at(admin: Admin, address: str, group: str, queue: MessageQueue) -> int | None:
    """Return the group's offset in a queue of the broker at *address*, None without one.

    Other than `Admin.committed_offset`, it needs no route. Raises as `Admin.request`.
    """
    header = QueryConsumerOffsetRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        set_zero_if_not_found=False,
        bname=queue.broker_name,
    )
    try:
        reply = await admin.request(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
    except BrokerRefused as refused:
        if refused.response_code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return reply_header(OffsetResponse, reply, address).offset
