"""The list of consumer groups: lag, time behind, members."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

import attrs

from gantrymq.client import Admin
from gantrymq.plugin import names
from gantrymq.plugin.model import GroupConfig
from gantrymq_admin.asking import Asking
from gantrymq_admin.progress import MOST_TOPICS, ages_of, is_broadcasting, lag_sum, oldest_age, progress_of
from gantrymq_admin.summaries import MAX_ROWS, group_column, group_summaries
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.table import (
    FEW,
    Column,
    Served,
    Tables,
    known_sum,
    largest,
    maximum,
    tables_of,
    total,
)
from gantrymq_console.web.values import Long

_NAMES_AGE_S: Final = 30.0
KINDS: Final = ("user", "all")
_NOT_ALL_TELL: Final = ("dead_letters", "per_s")  # fields of rows that brokers without summaries do not report
_LAG: Final = Column("behind", "lag", total)
COLUMNS: Final = {
    "late": Column("late", "late_ms", maximum),
    "lag": _LAG,
    "members": Column("members", "members", largest),
    "retries": Column("retries", "retries", total),
    "dlq": Column("dead_letters", "dead_letters", known_sum),
    "rate": Column("rate", "per_s", known_sum),
}
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
    partial: bool = False  # whether a broker did not answer; the sums exclude it
    at_least: tuple[str, ...] = ()  # fields that a broker does not report; their sums exclude it


@attrs.frozen
class GroupList:
    """A page of the list."""

    filter: str
    kind: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # groups without known values, at the end of the order
    oldest_ms: int | None  # when the oldest of the rows that the order is made of was asked for
    groups: tuple[GroupRow, ...]
    partial: bool = False  # whether a broker did not list its groups


async def group_list(
    cluster: Cluster, asking: Asking, contains: str, kind: str, sort: str, down: bool, start: int, rows: int
) -> GroupList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    enabled: dict[str, bool] = {}
    configs = await group_configs(cluster, asking)
    for part in configs.values():
        for name, config in part.items():
            enabled[name] = enabled.get(name, True) and config.consume_enable
    fit = [name for name in enabled if contains.lower() in name.lower() and (kind == "all" or not is_system(name))]
    tables = await group_tables(cluster)
    tables.leave_out(name for name, table in tables.brokers.items() if table.walks and name not in configs)
    order = () if sort == "name" else (COLUMNS[sort], _LAG), partial(_key, sort=sort, down=down)
    shown = slice(start, start + rows)
    page, oldest_ms = await tables.page(asking, fit, order, down, shown, lambda name: _row(name, enabled[name], tables))
    unknown, is_partial = tables.unknown(fit) if sort != "name" else 0, len(configs) < len(tables.brokers)
    is_partial = is_partial or not tables.complete
    return GroupList(contains, kind, sort, down, start, Long(len(fit)), unknown, oldest_ms, page, is_partial)


async def latest_groups(cluster: Cluster, asking: Asking, most: int) -> tuple[tuple[GroupRow, ...], int]:
    """Return the groups furthest behind in time, and the number of groups of which nothing is known.

    Raises ClientError: no name server answers.
    """
    tables = await asking.needed(group_tables(cluster))
    listed = set((await tables.column(asking, COLUMNS["late"])).value)
    walking = {name: groups_at(cluster, table.address) for name, table in tables.brokers.items() if table.walks}
    told = await asking.all(walking, share=0.6)
    tables.leave_out(walking.keys() - told.keys())  # else they use up the time of the others
    listed.update(*told.values())
    found = sorted(name for name in listed if not is_system(name))
    late = (await tables.column(asking, COLUMNS["late"], found)).value
    found.sort(key=lambda name: late.get(name) or 0, reverse=True)
    rows = found
    if len(found) > FEW:  # those without an age, of which the lag decides, are not among the first
        rows = [*found[:most], *(name for name in found[most:] if late.get(name) is None)][:FEW]
    await tables.refresh(asking, rows, found)
    made = [_row(name, None, tables) for name in rows]
    made.sort(key=lambda row: _key(row.late_ms, row.lag, "late", True), reverse=True)
    return tuple(made[:most]), tables.unknown(found)


async def group_configs(cluster: Cluster, asking: Asking) -> dict[str, dict[str, GroupConfig]]:
    """Return the settings of all groups by broker name, at most `_NAMES_AGE_S` old."""
    readers = await readers_of(cluster, asking)
    return await asking.all({name: groups_at(cluster, at) for name, at in readers.items()}, share=0.5)


async def groups_at(cluster: Cluster, address: str) -> dict[str, GroupConfig]:
    """Return the settings of all groups at one broker, at most `_NAMES_AGE_S` old."""
    return (await cluster.shared(("groups", address), _NAMES_AGE_S, partial(cluster.admin.groups, address))).value


async def forget_groups(cluster: Cluster, *changed: str) -> None:
    """Drop the known rows of groups after a change."""
    cluster.forget(*[("groups", address) for address in (await cluster.readers()).values()])
    tables = cluster.kept.get("groups")
    if isinstance(tables, Tables):
        tables.forget(*changed)


async def group_tables(cluster: Cluster) -> Tables[GroupPart]:
    """Return the known rows of groups, by broker name."""
    admin = cluster.admin
    served = Served(partial(group_column, admin), partial(_summaries, admin))
    return await tables_of(cluster, "groups", served, partial(_ask, cluster))


def is_system(group: str) -> bool:
    """Return whether brokers create the group themselves."""
    return group in names.SYSTEM_GROUPS or names.is_system_group(group)


async def _summaries(admin: Admin, address: str, names: Collection[str]) -> tuple[dict[str, GroupPart], int]:
    """Return the rows of a broker for some groups, and their age. Raises RequestNotServed."""
    page = await group_summaries(admin, address, order="name", most=MAX_ROWS, system=True, names=names)
    found = {
        each.group: GroupPart(
            each.members,
            each.model,
            each.behind,
            each.late_ms,
            False,
            each.retry_behind + each.retry_waiting,
            each.dead_letters,
            each.consumed_per_s,
        )
        for each in page.groups
    }
    return found, page.age_ms


async def _ask(cluster: Cluster, address: str, group: str) -> GroupPart:
    """Return the row of a group at a broker without summaries.

    With many topics, the age of the oldest message is at most the age of the last consumed one, because the exact age
    takes a request for each topic.
    """
    admin, now = cluster.admin, cluster.world.clock.now_ms()
    online = await admin.consumer_connections(address, group)
    progress = await progress_of(admin, address, group, online)
    own = {queue: each for queue, each in progress.items() if not queue.topic.startswith(names.RETRY_PREFIX)}
    behind = [each for each in own.values() if each.lag]
    exact = len({queue.topic for queue, each in own.items() if each.lag}) <= MOST_TOPICS
    if exact:
        late_ms = oldest_age((await ages_of(admin, address, group, own)).values())
    else:
        stored = [each.last_stored_ms for each in behind]
        late_ms = max(0, now - min(stored)) if all(stored) else None
    blank = not own and is_broadcasting(online)
    if not own and online is None:  # offline, and its members may have kept their offsets themselves
        config = (await groups_at(cluster, address)).get(group)
        blank = config is not None and config.consume_broadcast_enable
    return GroupPart(
        members=len(online.clients) if online is not None else 0,
        model=_model(online.consume_type, online.message_model) if online is not None else None,
        lag=None if blank else lag_sum(own.values()),
        late_ms=None if blank else late_ms,
        late_at_most=bool(behind) and not exact,
        retries=sum(each.lag or 0 for queue, each in progress.items() if queue not in own),
        dead_letters=None,
        per_s=None,
    )


def _model(consume_type: str, message_model: str) -> str:
    return "POP" if consume_type == "CONSUME_POP" else message_model


def _row(name: str, enabled: bool | None, tables: Tables[GroupPart]) -> GroupRow:
    aged = tables.parts(name)
    if not aged:
        return GroupRow(name, None, None, None, None, False, None, None, None, enabled, None)
    parts, partial = [each.value for each in aged], tables.partial(name)
    at_most = any(each.late_at_most for each in parts)
    values = {each.attribute: each.of(parts) for each in COLUMNS.values()}
    return GroupRow(
        name,
        values["members"] or (None if partial else 0),
        next((each.model for each in parts if each.model), None),
        _long(values["lag"]),
        None if partial and at_most else values["late_ms"],
        at_most,
        _long(values["retries"]),
        _long(values["dead_letters"]),
        values["per_s"],
        enabled,
        min(each.as_of_ms for each in aged),
        partial,
        tuple(which for which in _NOT_ALL_TELL if any(getattr(each, which) is None for each in parts)),
    )


def _long(value: int | None) -> Long | None:
    return None if value is None else Long(value)


def _key(value: float | None, lag: int | None, sort: str, down: bool) -> tuple[bool, float, int]:
    """Return the key of a sort; unknown values are last, equal ones are ordered by their lag."""
    if sort == "late" and value is None and lag:
        value = 0.5  # behind, by an unknown time: before those that are not behind
    return (value is None) != down, value or 0, lag or 0
