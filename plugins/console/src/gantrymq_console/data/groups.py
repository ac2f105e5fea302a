"""The list of consumer groups: lag, time behind, members."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import GroupClients, QueueProgress, QueueTimes
from gantrymq.model import names
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq_admin.summaries import MAX_ROWS, group_summaries
from gantrymq_console.data.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import FEW, BrokerTable, Tables, each_of
from gantrymq_console.web.values import Long

__all__ = [
    "KINDS",
    "SORTS",
    "GroupList",
    "GroupRow",
    "forget_groups",
    "group_list",
    "group_tables",
    "groups_at",
    "is_broadcasting",
    "is_system",
    "latest",
    "progress_of",
]

NAMES_AGE_S: Final = 30.0
MOST_TIMES: Final = 8  # topics of a group whose times are asked for
KINDS: Final = ("user", "all")
SORTS: Final = ("late", "lag", "name", "members", "retries", "dlq", "rate")


@attrs.frozen
class GroupPart:
    """A group at one broker; None: unknown."""

    members: int
    model: str | None
    lag: int | None
    late_ms: int | None  # age of the oldest message not consumed; 0 without one
    late_at_most: bool  # whether `late_ms` is an upper bound only
    retries: int | None
    dead_letters: int | None
    per_s: float | None


@attrs.frozen
class GroupRow:
    """One group in the list; None: unknown."""

    name: str
    members: int | None
    model: str | None  # CLUSTERING, BROADCASTING, POP
    lag: Long | None
    late_ms: int | None
    late_at_most: bool
    retries: Long | None
    dead_letters: Long | None
    per_s: float | None
    enabled: bool | None  # whether it may consume
    as_of_ms: int | None
    partial: bool = False  # whether a broker has not told: the sums are of the others


@attrs.frozen
class GroupList:
    """A page of the list."""

    filter: str
    kind: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # groups that are at the end of the order because nothing is known of them yet
    oldest_ms: int | None  # when the oldest of the rows that the order is made of was asked for
    groups: tuple[GroupRow, ...]
    partial: bool = False  # whether a broker has not told its groups


async def group_list(
    cluster: Cluster, asking: Asking, contains: str, kind: str, sort: str, down: bool, start: int, rows: int
) -> GroupList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    masters = await asking.needed(cluster.masters())
    configs = await group_configs(cluster, asking)
    partial = len(configs) < len(masters)
    enabled: dict[str, bool] = {}
    for part in configs.values():
        for name, config in part.items():
            enabled[name] = enabled.get(name, True) and config.consume_enable
    found = sorted(
        name for name in enabled if contains.lower() in name.lower() and (kind == "all" or not is_system(name))
    )
    tables = await group_tables(cluster)
    by_name = sort == "name"
    page = sorted(found, reverse=down)[start : start + rows]
    shown = found if len(found) <= FEW else page if by_name else []
    await asking.all({name: tables.brokers[name].refresh(shown, found) for name in masters})
    clock = cluster.world.clock
    if by_name:
        made = await each_of(page, lambda name: _row(name, enabled[name], tables), clock)
        return GroupList(contains, kind, sort, down, start, Long(len(found)), 0, None, tuple(made), partial)
    made = await each_of(found, lambda name: _row(name, enabled[name], tables), clock)
    made.sort(key=lambda row: _key(row, sort, down), reverse=down)
    oldest = min((row.as_of_ms for row in made if row.as_of_ms is not None), default=None)
    rows_shown = made[start : start + rows]
    if len(found) > FEW:
        page = [row.name for row in rows_shown]
        await asking.all({name: tables.brokers[name].refresh(page, found) for name in masters})
        rows_shown = [_row(name, enabled[name], tables) for name in page]
    unknown = tables.unknown(found)
    return GroupList(contains, kind, sort, down, start, Long(len(made)), unknown, oldest, tuple(rows_shown), partial)


async def group_configs(cluster: Cluster, asking: Asking) -> dict[str, dict[str, GroupConfig]]:
    """Return the settings of all groups by broker name, at most `NAMES_AGE_S` old."""
    masters = await asking.needed(cluster.masters())
    return await asking.all({name: groups_at(cluster, at) for name, at in masters.items()}, share=0.5)


async def groups_at(cluster: Cluster, address: str) -> dict[str, GroupConfig]:
    """Return the settings of all groups at one broker, at most `NAMES_AGE_S` old."""
    return (await cluster.shared(("groups", address), NAMES_AGE_S, partial(cluster.admin.groups, address))).value


async def forget_groups(cluster: Cluster, *changed: str) -> None:
    """Drop what is known about groups after a change."""
    cluster.forget(*[("groups", address) for address in (await cluster.masters()).values()])
    tables = cluster.kept.get("groups")
    if isinstance(tables, Tables):
        tables.forget(*changed)


async def group_tables(cluster: Cluster) -> Tables[GroupPart]:
    """Return what is known about groups, by broker name."""
    tables: Tables[GroupPart] = cluster.kept.setdefault("groups", Tables())
    for name, address in (await cluster.masters()).items():
        known = tables.brokers.get(name)
        if known is None or known.address != address:
            tables.brokers[name] = BrokerTable(
                cluster, "groups", address, partial(_summaries, cluster.admin), partial(_ask, cluster)
            )
    return tables


async def progress_of(
    admin: Admin, address: str, group: str, online: GroupClients | None
) -> dict[MessageQueue, QueueProgress]:
    """Return the progress of a group, also on topics that its members subscribe to and have committed nothing for.

    RocketMQ's brokers leave these out unless they are named. Members that broadcast keep their offsets themselves, so
    nothing is known of them.
    """
    found = await admin.group_progress(address, group)
    if online is None or is_broadcasting(online):
        return found
    known = {queue.topic for queue in found}
    wanted = [each.topic for each in online.subscriptions if not each.topic.startswith(names.RETRY_PREFIX)]
    for topic in [each for each in wanted if each not in known][:MOST_TIMES]:
        found |= await admin.group_progress(address, group, topic)
    return found


def is_broadcasting(online: GroupClients | None) -> bool:
    """Return whether the members of a group broadcast."""
    return online is not None and online.message_model == "BROADCASTING"


def latest(times: Iterable[QueueTimes], now_ms: int) -> int | None:
    """Return the age of the oldest message that a group has not consumed, None if a broker could not read its time.

    RocketMQ's brokers return the age of a message of 1970 then.
    """
    ages = [each.late_ms for each in times]
    return None if any(age > now_ms // 2 for age in ages) else max(ages, default=None)


def is_system(group: str) -> bool:
    """Return whether brokers create the group themselves."""
    return group in names.SYSTEM_GROUPS or names.is_system_group(group)


async def _summaries(admin: Admin, address: str) -> dict[str, GroupPart]:
    """Return what a broker knows about all groups. Raises RequestNotServed."""
    found: dict[str, GroupPart] = {}
    start = 0
    while True:
        page = await group_summaries(admin, address, order="name", start=start, most=MAX_ROWS, system=True)
        for each in page.groups:
            found[each.group] = GroupPart(
                each.members,
                each.model,
                each.behind,
                each.late_ms,
                False,
                each.retry_behind + each.retry_waiting,
                each.dead_letters,
                each.consumed_per_s,
            )
        start += MAX_ROWS
        if start >= page.total:
            return found


async def _ask(cluster: Cluster, address: str, group: str) -> GroupPart:
    """Return what a broker without summaries knows about a group.

    With many topics, the age of the oldest message is that of the last one consumed at most, because the exact age
    takes a request for each topic.
    """
    admin, now = cluster.admin, cluster.world.clock.now_ms()
    online = await admin.consumer_connections(address, group)
    progress = await progress_of(admin, address, group, online)
    own = [each for queue, each in progress.items() if not queue.topic.startswith(names.RETRY_PREFIX)]
    behind = [each for each in own if each.lag]
    topics = sorted(
        {queue.topic for queue, each in progress.items() if each.lag and not queue.topic.startswith(names.RETRY_PREFIX)}
    )
    exact = len(topics) <= MOST_TIMES
    late_ms: int | None = 0
    if behind and exact:
        times = [each for topic in topics for each in (await admin.group_times(address, group, topic)).values()]
        late_ms = latest(times, now)
    elif behind:
        stored = [each.last_stored_ms for each in behind]
        late_ms = max(0, now - min(stored)) if all(stored) else None
    return GroupPart(
        members=len(online.clients) if online is not None else 0,
        model=_model(online.consume_type, online.message_model) if online is not None else None,
        lag=None if not own and is_broadcasting(online) else sum(each.lag for each in own),
        late_ms=None if not own and is_broadcasting(online) else late_ms,
        late_at_most=bool(behind) and not exact,
        retries=sum(each.lag for queue, each in progress.items() if queue.topic.startswith(names.RETRY_PREFIX)),
        dead_letters=None,
        per_s=None,
    )


def _model(consume_type: str, message_model: str) -> str:
    return "POP" if consume_type == "CONSUME_POP" else message_model


def _row(name: str, enabled: bool, tables: Tables[GroupPart]) -> GroupRow:
    aged = tables.parts(name)
    if not aged:
        return GroupRow(name, None, None, None, None, False, None, None, None, enabled, None)
    parts, partial = [each.value for each in aged], tables.partial(name)
    late = [each.late_ms for each in parts]
    at_most = any(each.late_at_most for each in parts)
    return GroupRow(
        name,
        max(each.members for each in parts) or (None if partial else 0),
        next((each.model for each in parts if each.model), None),
        _sum(each.lag for each in parts),
        max((each for each in late if each is not None), default=None)
        if None not in late and not (partial and at_most)
        else None,
        at_most,
        _sum(each.retries for each in parts),
        _sum(each.dead_letters for each in parts),
        sum(each.per_s or 0.0 for each in parts) if all(each.per_s is not None for each in parts) else None,
        enabled,
        min(each.as_of_ms for each in aged),
        partial,
    )


def _sum(numbers: Iterable[int | None]) -> Long | None:
    found = list(numbers)
    return None if None in found else Long(sum(each for each in found if each is not None))


def _key(row: GroupRow, sort: str, down: bool) -> tuple[Any, ...]:
    """Return the key of a sort; unknown values are last, equal ones are ordered by their lag."""
    value: Any = {
        "late": row.late_ms,
        "lag": row.lag,
        "members": row.members,
        "retries": row.retries,
        "dlq": row.dead_letters,
        "rate": row.per_s,
    }[sort]
    if sort == "late" and value is None and row.lag:
        value = 0.5  # behind, by an unknown time: before those that are not behind
    return (value is None) != down, value if value is not None else 0, row.lag or 0
