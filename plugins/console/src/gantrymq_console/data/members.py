"""Members of a consumer group: addresses, versions, subscriptions, and the state that one member reports."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.client.admin import RunningInfo
from gantrymq.errors import ClientError, ConsumerNotOnline
from gantrymq.plugin.model import Value
from gantrymq_admin.asking import Asking
from gantrymq_admin.progress import members_of as members_online
from gantrymq_admin.summaries import version_name
from gantrymq_console.access.users import mask
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.group import GroupHead, GroupReports, head_of
from gantrymq_console.values import Long, record_of


@attrs.frozen
class Member:
    """One client of the group."""

    client_id: str
    addresses: tuple[str, ...]  # as its brokers see it
    language: str
    version: str  # of the protocol
    brokers: tuple[str, ...]
    reads: tuple[str, ...]  # topics whose queues it reads, as far as brokers report it


@attrs.frozen
class Wanted:
    """A subscription, as the newest heartbeat says."""

    topic: str
    expression: str
    type: str


@attrs.frozen
class Clash:
    """A conflict between members."""

    kind: str
    sentence: str  # of the broker, in English
    broker: str
    values: Mapping[str, Value]  # none from older brokers
    variant: str


@attrs.frozen
class GroupMembers:
    """The tab with the members."""

    head: GroupHead
    consume_type: str
    message_model: str
    from_where: str
    subscriptions: tuple[Wanted, ...]
    conflicts: tuple[Clash, ...]
    conflicts_known: bool  # False: a broker does not report it
    start: int
    total: int
    members: tuple[Member, ...]


@attrs.frozen
class HeldQueue:
    """A queue that a member reads."""

    topic: str
    broker: str
    queue: int
    committed: Long
    cached: int
    cached_mib: int
    locked: bool
    dropped: bool
    last_pulled_ms: int | None
    last_consumed_ms: int | None


@attrs.frozen
class TopicRate:
    """Rates of a member for a topic, over the last minute; failures over the last hour."""

    topic: str
    pull_ms: float
    pulled_per_s: float
    consume_ms: float
    consumed_per_s: float
    failed_per_s: float
    failed: int


@attrs.frozen
class MemberState:
    """The running information of one member."""

    group: str
    client_id: str
    properties: Mapping[str, str]
    queues: tuple[HeldQueue, ...]
    rates: tuple[TopicRate, ...]
    stacks: str
    asked_stacks: bool


def members_of(reports: GroupReports, start: int, rows: int) -> GroupMembers:
    """Return a page of the members of a group."""
    found: dict[str, Member] = {}
    conflicts: list[Clash] = []
    for broker, part in reports.brokers.items():
        if part.explained is not None:
            conflicts += [record_of(Clash, each, broker=broker) for each in part.explained.conflicts]
        if part.online is None:
            continue
        reads: dict[str, set[str]] = {}
        for each in part.explained.members if part.explained is not None else ():
            reads.setdefault(each.client_id, set()).update(each.topics)
        for client in part.online.clients:
            known = found.get(client.client_id)
            found[client.client_id] = Member(
                client.client_id,
                tuple(sorted({client.address, *(known.addresses if known else ())})),
                client.language,
                version_name(client.version),
                tuple(sorted({broker, *(known.brokers if known else ())})),
                tuple(sorted({*reads.get(client.client_id, ()), *(known.reads if known else ())})),
            )
    members = [found[key] for key in sorted(found)]
    online = members_online({broker: part.online for broker, part in reports.brokers.items()})
    return GroupMembers(
        head_of(reports),
        online.consume_type,
        online.message_model,
        online.consume_from_where,
        tuple(record_of(Wanted, each) for each in online.subscriptions),
        tuple(conflicts),
        all(part.explained is not None for part in reports.brokers.values()),
        start,
        len(members),
        tuple(members[start : start + rows]),
    )


async def member_state(cluster: Cluster, asking: Asking, group: str, client_id: str, *, stacks: bool) -> MemberState:
    """Return the state of a member, through the first broker that it is connected to.

    Raises:
        ConsumerNotOnline: no broker knows the member.
        ClientError: it does not answer.
    """
    readers = await readers_of(cluster, asking)
    problem: ClientError | None = None
    for address in readers.values():
        try:
            if client_id not in await asking.needed(cluster.admin.members(address, group)):
                continue
            info = await asking.needed(cluster.admin.running_info(address, group, client_id, stacks=stacks))
        except ClientError as refused:
            problem = refused
            continue
        return _state(group, client_id, info, stacks)
    if problem is not None:
        raise problem
    raise ConsumerNotOnline(f"{client_id} is not an online member of group {group}")


def _state(group: str, client_id: str, info: RunningInfo, stacks: bool) -> MemberState:
    return MemberState(
        group,
        client_id,
        {name: mask(name, value) for name, value in info.properties.items()},
        tuple(
            HeldQueue(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                Long(each.committed_offset),
                each.cached_count,
                each.cached_mib,
                each.locked,
                each.dropped,
                each.last_pulled_ms or None,
                each.last_consumed_ms or None,
            )
            for queue, each in info.queues.items()
        ),
        tuple(
            record_of(TopicRate, each, topic=topic, failed=each.failed_count) for topic, each in info.figures.items()
        ),
        info.stacks,
        stacks,
    )
