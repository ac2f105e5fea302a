"""One sample of a cluster, made of the same answers as pages.

Brokers of GantryMQ tell about all topics and groups at once. Others are asked name by name, so that a sample has the
topics and groups whose history was looked at lately, and those whose rows pages have just asked for.

A kind is left out of a sample if a broker does not answer: a sum without its part would look like a fall.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_console.data.brokers import BrokerState, CopyRow, copies_of_name, overview, runtime_info
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import COLUMNS as GROUP_COLUMNS
from gantrymq_console.data.groups import group_tables, groups_at, tells_all
from gantrymq_console.data.table import BrokerTable, Tables, known_sum, total
from gantrymq_console.data.table import Column as TableColumn
from gantrymq_console.data.topics import COLUMNS as TOPIC_COLUMNS
from gantrymq_console.data.topics import topic_tables
from gantrymq_console.history.packing import Column

EVERY_S: Final = 10
RATE_S: Final = {"cluster": 10, "broker": 10, "topic": 60, "group": 60}
"""Period over which brokers average the rates of each kind, seconds."""
_WATCHED_MS: Final = 3_600_000  # how long a broker without summaries is asked about a subject after it was looked at
_MOST_WATCHED: Final = 20
_TIME: Final = "earliestMessageTimeStamp"
_ABSENT: Final[Any] = object()  # a broker does not have the subject


@attrs.frozen
class Sample:
    """What one look at the cluster found."""

    at_ms: int  # wall time of its beginning
    columns: Mapping[str, Sequence[Column]]  # by kind, one for each word; kinds that are not known are missing
    brokers: tuple[BrokerState, ...]
    copies: Mapping[str, tuple[CopyRow, ...]]  # by broker name
    members: Column | None  # of groups; None: not known
    all_groups: bool = True  # whether *members* has all groups, and not only those that were looked at


class Sampler:
    """Takes samples."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: OrderedDict[tuple[str, str], int] = OrderedDict()  # since when, monotonic

    def watch(self, kind: str, name: str) -> None:
        """Ask brokers without summaries about a topic or group from now on, for an hour."""
        if kind in ("topic", "group"):
            self._watched[kind, name] = monotonic_ms(self._cluster.world.clock)
            self._watched.move_to_end((kind, name))
            if len(self._watched) > _MOST_WATCHED:
                self._watched.popitem(last=False)

    def _names(self, kind: str) -> list[str]:
        now_ms = monotonic_ms(self._cluster.world.clock)
        return [name for (of, name), at_ms in self._watched.items() if of == kind and now_ms - at_ms < _WATCHED_MS]

    async def take(self) -> Sample:
        """Take one sample. Raises ClientError: no name server answers, and none has so far."""
        cluster = self._cluster
        at_ms = cluster.world.clock.now_ms()
        found = (await overview(cluster)).value
        asking = Asking(cluster.world.clock, EVERY_S / 2)
        several = {each.name for each in found.brokers if each.broker_id}
        copies = await asking.all(
            {name: copies_of_name(cluster, name, found.silent) for name in sorted(several)}, share=0.4
        )
        columns: dict[str, Sequence[Column]] = {"broker": await self._brokers(asking, found.brokers, copies, at_ms)}
        if not found.partial:
            columns["cluster"] = [{"": found.total("in_per_s")}, {"": found.total("out_per_s")}]
        topics = await self._topics(asking)
        if topics is not None:
            columns["topic"] = topics
        groups = await self._groups(asking)
        if groups is not None:
            columns["group"] = groups[:-1]
        members = groups[-1] if groups is not None else None
        return Sample(at_ms, columns, found.brokers, copies, members, tells_all(cluster))

    async def _brokers(
        self,
        asking: Asking,
        brokers: Sequence[BrokerState],
        copies: Mapping[str, tuple[CopyRow, ...]],
        now_ms: int,
    ) -> Sequence[Column]:
        words: list[dict[str, float | None]] = [{}, {}, {}, {}, {}]
        told = await asking.all(  # the answers of the overview, unless they are just too old
            {each.title: runtime_info(self._cluster, each.address) for each in brokers if each.answers}, share=0.4
        )
        for each in brokers:
            info = told.get(each.title)
            oldest_s = None if info is None else _age_s(info.value.get(_TIME, ""), now_ms)
            lag = replica_lag(copies.get(each.name, ())) if each.broker_id == 0 and each.answers else None
            used = None if each.disk_used is None else round(each.disk_used * 100, 2)
            values = (each.in_per_s, each.out_per_s, used, oldest_s, lag)
            for word, value in zip(words, values, strict=True):
                word[each.title] = value
        return words

    async def _topics(self, asking: Asking) -> Sequence[Column] | None:
        tables = await topic_tables(self._cluster)
        return await _sums(tables, asking, [TOPIC_COLUMNS["in"], TOPIC_COLUMNS["out"]], self._names("topic"))

    async def _groups(self, asking: Asking) -> list[Column] | None:
        tables = await group_tables(self._cluster)
        names = self._names("group")
        if names and any(each.walks for each in tables.brokers.values()):
            # Anybody may look at the history of any name, and such a broker answers about it as about an idle group.
            brokers = {name: groups_at(self._cluster, each.address) for name, each in tables.brokers.items()}
            told = await asking.all(brokers, share=0.3)
            if len(told) < len(brokers):
                return None
            names = [name for name in names if any(name in each for each in told.values())]
        words = [GROUP_COLUMNS[each] for each in ("lag", "late", "rate", "retries", "dlq", "members")]
        found = await _sums(tables, asking, words, names)
        if found is None:
            return None
        late = found[1]
        found[1] = {name: None if each is None else each / 1000 for name, each in late.items()}
        return found


async def _sums(
    tables: Tables[Any], asking: Asking, columns: Sequence[TableColumn], watched: Sequence[str]
) -> list[Column] | None:
    """Return the sums of columns over all brokers; None if one does not answer."""
    walking = {name: table.refresh_each(watched) for name, table in tables.brokers.items() if not table.may_serve}
    if len(await asking.all(walking, share=0.5)) < len(walking):
        return None
    parts = await asking.all({name: _columns(table, columns) for name, table in tables.brokers.items()})
    if len(parts) < len(tables.brokers):
        return None
    walked = [parts[name][0] for name, table in tables.brokers.items() if table.walks]
    if len(parts) == 1 and not walked:
        return list(next(iter(parts.values())))
    known: Collection[str] | None = walked[0].keys() if walked else None  # a sum lacks what one of these did not tell
    for other in walked[1:]:
        known = {name for name in known or () if name in other}
    return [
        _merged([part[number] for part in parts.values()], total if each.combine is known_sum else each.combine, known)
        for number, each in enumerate(columns)
    ]


async def _columns(table: BrokerTable[Any], columns: Sequence[TableColumn]) -> list[Column]:
    """Return columns of one broker; of one without summaries, those of rows that are not old.

    None instead of a row is a name that the broker does not have.
    """
    found: list[Column] = []
    for each in columns:
        if table.may_serve:
            found.append((await table.column(each)).value)
    if not table.walks:
        return found
    rows = [(name, row.value) for name, row in table.rows.items() if not table.is_old(name)]
    return [{name: _ABSENT if row is None else getattr(row, each.attribute) for name, row in rows} for each in columns]


def _merged(parts: Sequence[Column], combine: Callable[[Any, Any], Any], known: Collection[str] | None) -> Column:
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if value is _ABSENT or (known is not None and name not in known):
                continue
            merged[name] = combine(merged[name], value) if name in merged else value
    return merged


def replica_lag(copies: Sequence[CopyRow]) -> int | None:
    """Return the bytes by which the last slave is behind; None without a slave, or if one does not tell."""
    lags = [each.lag_bytes for each in copies if each.role != "master"]
    return None if None in lags else max((int(each) for each in lags if each is not None), default=None)


def _age_s(text: str, now_ms: int) -> float | None:
    """Return the age of the oldest message; 0 or less is that of an empty log."""
    try:
        at_ms = int(text)
    except ValueError:
        return None
    return max(0.0, (now_ms - at_ms) / 1000) if at_ms > 0 else None
