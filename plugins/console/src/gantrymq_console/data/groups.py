"""The list of consumer groups: lag, time behind, members."""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs

from gantrymq.plugin import names
from gantrymq.plugin.model import GroupConfig
from gantrymq_admin.asking import Asking
from gantrymq_admin.progress import MOST_TOPICS, ages_of, is_broadcasting, lag_sum, oldest_age, progress_of
from gantrymq_admin.summaries import GroupSummaries
from gantrymq_console.data.cluster import Cluster, readers_of
from gantrymq_console.data.table import (
    FEW,
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

_NAMES_AGE_S: Final = 30.0
_BROADCASTING: Final = "BROADCASTING"
KINDS: Final = ("user", "all")
_NOT_ALL_REPORT: Final = ("dead_letters", "per_s")  # fields of rows that brokers without summaries do not report
# A broker with neither a commit nor a member of a group knows no lag of it; those at other brokers count.
_LAG: Final = Column("behind", "lag", known_sum, "behind")
COLUMNS: Final = {
    "late": Column("late", "late_ms", largest),
    "lag": _LAG,
    "members": Column("members", "members", largest),
    "retries": Column("retries", "retries", total),
    "dlq": Column("dead_letters", "dead_letters", known_sum),
    "rate": Column("rate", "per_s", known_sum, "consumed_per_s"),
}
_SUMMARY: Final = (*COLUMNS.values(), Column("", "model", either), Column("", "read_by_others", either))
_LATE_AT_MOST: Final = Column("", "late_at_most", either)  # not from summaries, which know the exact age
SORTS: Final = ("late", "lag", "name", "members", "retries", "dlq", "rate")


@attrs.frozen
class GroupRow(ListRow):
    """One group in the list; None: unknown."""

    members: int | None = None
    model: str | None = None  # CLUSTERING, BROADCASTING, POP
    lag: Long | None = attrs.field(default=None, converter=optional_long)
    late_ms: int | None = None  # age of the oldest message not consumed; 0 without one
    late_at_most: bool = False  # whether `late_ms` is an upper bound only
    retries: Long | None = attrs.field(default=None, converter=optional_long)
    dead_letters: Long | None = attrs.field(default=None, converter=optional_long)
    per_s: float | None = None
    enabled: bool | None = None  # whether it may consume
    read_by_others: bool = False  # whether it is behind, has no member, and clients that are none read


@attrs.frozen
class GroupList(ListPage):
    """A page of the list."""

    kind: str
    oldest_ms: int | None  # when the oldest of the rows that the order is made of was asked for
    groups: tuple[GroupRow, ...]


async def group_list(cluster: Cluster, asking: Asking, query: ListQuery) -> GroupList:
    """Return a page of the list. Raises ClientError: no name server answers."""
    enabled: dict[str, bool] = {}
    configs = await group_configs(cluster, asking)
    for part in configs.values():
        for name, config in part.items():
            enabled[name] = enabled.get(name, True) and config.consume_enable
    wanted, everything = query.contains.lower(), query.kind == "all"
    fit = [name for name in enabled if wanted in name.lower() and (everything or not is_system(name))]
    tables = await group_tables(cluster)
    tables.leave_out(name for name, table in tables.brokers.items() if table.walks and name not in configs)
    named = query.sort == "name"
    order = () if named else (COLUMNS[query.sort], _LAG), partial(_key, sort=query.sort, down=query.down)
    page, oldest_ms = await tables.page(asking, fit, order, query, lambda name: _row(name, enabled[name], tables))
    is_partial = len(configs) < len(tables.brokers) or not tables.complete
    unknown, kind = 0 if named else tables.unknown(fit), query.kind
    return GroupList.of(query, len(fit), unknown, is_partial, kind=kind, oldest_ms=oldest_ms, groups=page)


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


async def group_tables(cluster: Cluster) -> Tables[GroupRow]:
    """Return the known rows of groups, by broker name."""
    served = Served(cluster.admin, GroupSummaries, GroupRow, _SUMMARY)
    return await tables_of(cluster, "groups", served, partial(ask_group, cluster))


def tells_all(cluster: Cluster) -> bool:
    """Return whether no broker is known that cannot tell about all groups at once. Asks nothing."""
    tables: Tables[GroupRow] | None = cluster.kept.get("groups")
    return tables is None or not any(each.walks for each in tables.brokers.values())


def is_system(group: str) -> bool:
    """Return whether brokers create the group themselves."""
    return group in names.SYSTEM_GROUPS or names.is_system_group(group)


async def ask_group(cluster: Cluster, address: str, group: str) -> GroupRow:
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
    return GroupRow(
        group,
        members=len(online.clients) if online is not None else 0,
        model=None if online is None else "POP" if online.pops else online.message_model,
        lag=None if blank else lag_sum(each.lag for each in own.values()),
        late_ms=None if blank else late_ms,
        late_at_most=bool(behind) and not exact,
        retries=sum(each.lag or 0 for queue, each in progress.items() if queue not in own),
    )


def _row(name: str, enabled: bool | None, tables: Tables[GroupRow]) -> GroupRow:
    row = combined(tables, GroupRow(name, enabled=enabled), (*_SUMMARY, _LATE_AT_MOST), _NOT_ALL_REPORT)
    if row.model == _BROADCASTING:  # a number is of commits from before: members keep their offsets now
        row = attrs.evolve(row, lag=None, late_ms=None)
    elif any(each.value.lag and each.value.late_ms is None for each in tables.parts(name)):
        row = attrs.evolve(row, late_ms=None)
    if not row.partial:
        return row
    return attrs.evolve(row, members=row.members or None, late_ms=None if row.late_at_most else row.late_ms)


def _key(value: float | None, lag: int | None, sort: str, down: bool) -> tuple[bool, float, int]:
    """Return the key of a sort; unknown values are last, equal ones are ordered by their lag."""
    if sort == "late" and value is None and lag:
        value = 0.5  # behind, by an unknown time: before those that are not behind
    return (value is None) != down, value or 0, lag or 0
