"""Requests for lists by page: 65023 groups, 65024 connections, 65025 topics.

    body    {"sort", "contains", "start", "most", "system"}, all optional
            sort      65023: behind, late or name; 65024: name, since or heard; 65025: name, kept, put or got.
                      Names ascend, other values descend. The name of a connection is its client id, or its address.
            contains  only names with this text, in any case; for connections also addresses and groups
            start     number of the first row, from 0
            most      number of rows, 1 to 200; default 50
            system    whether to include rows that belong to the broker; for topics also retry and dead letter topics,
                      for connections also the ones without a heartbeat
            names     65023, 65025: a list; only the rows with these names
            column    65023: late, behind, members, retries, dead_letters or rate;
                      65025: type, kept, newest, put, got, groups or queues.
                      One value of each row instead of rows, in the order of names; up to 5,000
    answer  {"broker", "computed_ms", "age_ms", "total", ...}, and the rows as "groups", "connections" or "topics";
            for a column "names" and "values". Values that are not known are null, but "behind" of a row is 0 then, and
            its "behind_known" false

The tables are computed in short steps and kept for some seconds (`SharedTable`), or until a topic or group is deleted;
``computed_ms`` is the time of the table, ``age_ms`` how long ago that is, ``total`` the number of rows that fit. All
values of a row are of one time. Of "names", topics and groups that are newer than the table have a row of now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.plugin.interfaces import Broker, BrokerStorage
from gantrymq.plugin.loose_json import COUNT, flag_in, number_in, text_in, texts_in
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, object_body_of, response_to, serves
from gantrymq_diagnosis.connection_rows import ConnectionRow, ConnectionTable, connection_table
from gantrymq_diagnosis.group_rows import GroupRow, GroupTable, StoredTimes, add_times, group_table
from gantrymq_diagnosis.operators.requests import stopping
from gantrymq_diagnosis.pop_modes import PopModes
from gantrymq_diagnosis.service import CONNECTION_SUMMARIES, GROUP_SUMMARIES, TOPIC_SUMMARIES
from gantrymq_diagnosis.shared_table import SharedTable
from gantrymq_diagnosis.topic_rows import TopicRow, TopicTable, add_newest, topic_table
from gantrymq_diagnosis.watch import Watch

MAX_ROWS: Final = 200
MAX_VALUES: Final = 5000  # of a column; 2 ms
_DEFAULT_ROWS: Final = 50

NAME: Final = "name"
_LATE: Final = "late"
_NEWEST: Final = "newest"

_GROUP_COLUMNS: Final[Mapping[str, Callable[[GroupRow], Any]]] = {
    "behind": attrgetter("behind"),
    _LATE: attrgetter("late_ms"),
    "members": attrgetter("members"),
    "retries": lambda row: row.retry_behind + row.retry_waiting,
    "dead_letters": attrgetter("dead_letters"),
    "rate": lambda row: round(row.consumed_per_s, 3),
}
_GROUP_SORTS: Final[Mapping[str, Callable[[GroupRow], Any]]] = {
    "behind": lambda row: 0.5 if row.behind is None else row.behind,  # unknown: before groups that are not behind
    _LATE: lambda row: 0.5 if row.late_ms is None else row.late_ms,  # unknown: before groups that are not behind
    NAME: attrgetter("name"),
}
_CONNECTION_SORTS: Final[Mapping[str, Callable[[ConnectionRow], Any]]] = {
    NAME: attrgetter("name"),
    "since": attrgetter("online.since_ms"),
    "heard": attrgetter("online.heard_ms"),
}
_TOPIC_SORTS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    NAME: attrgetter("name"),
    "kept": attrgetter("kept"),
    "put": attrgetter("put_per_s"),
    "got": attrgetter("got_per_s"),
}
_TOPIC_COLUMNS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    "type": attrgetter("message_type"),
    "kept": attrgetter("kept"),
    _NEWEST: attrgetter("newest_ms"),
    "put": lambda row: round(row.put_per_s, 3),
    "got": lambda row: round(row.got_per_s, 3),
    "groups": attrgetter("groups"),
    "queues": attrgetter("read_queues"),
}


class Named(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str:
        """The order of rows that are equal otherwise."""

    @property
    def searched(self) -> str:
        """The text that ``contains`` applies to."""


Row = TypeVar("Row", bound=Named)


class PageQuery(NamedTuple):
    """The body of a request."""

    sort: str
    contains: str
    start: int
    most: int
    system: bool
    names: frozenset[str]  # empty: all
    column: str  # empty: rows

    @classmethod
    def of(cls, asked: Command, sorts: Sequence[str], columns: Collection[str] = ()) -> PageQuery:
        """Parse a request; *sorts*: the orders that it may name, the default first.

        Raises:
            RequestRefused, InvalidParameter: it is malformed.
        """
        body = object_body_of(asked) if asked.body else {}
        try:
            query = cls(
                text_in(body, "sort", sorts[0]),
                text_in(body, "contains", "").lower(),
                number_in(body, "start", 0, COUNT),
                number_in(body, "most", _DEFAULT_ROWS),
                flag_in(body, "system", False),
                frozenset(texts_in(body, "names")),
                text_in(body, "column", ""),
            )
        except FormatError as problem:
            raise InvalidParameter(f"request {asked.code}: {problem}") from problem
        if query.sort not in sorts:
            raise InvalidParameter(f"request {asked.code}: sort={query.sort} is not one of {', '.join(sorts)}")
        if query.column and query.column not in columns:
            raise InvalidParameter(f"request {asked.code}: column={query.column} is not one of {', '.join(columns)}")
        limit = MAX_VALUES if query.column else MAX_ROWS
        if not 1 <= query.most <= limit:
            raise InvalidParameter(f"request {asked.code}: most={query.most}: a page has 1 to {limit} rows")
        return query

    def lacking(self, rows: Sequence[Named], existing: Collection[str]) -> list[str]:
        """Return which of `names` are *existing* but have no row, as they are newer than the table."""
        known = {row.name for row in rows} if self.names else set()
        return [name for name in self.names if name in existing and name not in known]

    def rows(self, rows: Sequence[Row], key: Callable[[Row], Any]) -> tuple[list[Row], int]:
        """Return the rows of the page, and the number of matching rows. *rows* are in the order of names."""
        found = [row for row in rows if row.name in self.names] if self.names else list(rows)
        if self.contains:
            found = [row for row in found if self.contains in row.searched.lower()]
        if self.sort != NAME and not self.column:
            found.sort(key=key, reverse=True)  # stable: equal ones remain in the order of their names
        return found[self.start : self.start + self.most], len(found)


Table = GroupTable | ConnectionTable | TopicTable


class _Tables(NamedTuple):
    """The tables and the broker, between start and stop."""

    broker: Broker
    watch: Watch
    modes: PopModes
    times: StoredTimes  # of groups
    newest: StoredTimes  # of topics
    groups: SharedTable[GroupTable]
    groups_with_times: SharedTable[GroupTable]
    connections: SharedTable[ConnectionTable]
    topics: SharedTable[TopicTable]
    topics_with_newest: SharedTable[TopicTable]


class Summaries:
    """Handlers of requests 65023 to 65025; may be started again after a stop."""

    def __init__(self) -> None:
        """Create handlers without a broker."""
        self._tables: _Tables | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    def start(self, broker: Broker, watch: Watch, modes: PopModes) -> None:
        """Answer for *broker*; *watch* knows its members, *modes* the groups that pop."""
        clock, times, newest = broker.world.clock, StoredTimes(broker), StoredTimes(broker)

        async def groups() -> GroupTable:
            times.next_table(of_all=False)
            return await group_table(broker, watch, modes)

        async def groups_with_times() -> GroupTable:
            table = await of_groups.get(new=True)
            times.next_table(of_all=True)
            await add_times(table, table.rows, times, broker)
            return table

        async def topics() -> TopicTable:
            newest.next_table(of_all=False)
            return await topic_table(broker)

        async def topics_with_newest() -> TopicTable:
            table = await of_topics.get(new=True)
            newest.next_table(of_all=True)
            await add_newest(table.rows, newest, broker)
            return table

        of_groups = SharedTable(clock, groups)
        with_times = SharedTable(clock, groups_with_times)
        connections = SharedTable(clock, lambda: connection_table(broker))
        of_topics = SharedTable(clock, topics)
        with_newest = SharedTable(clock, topics_with_newest)
        self._tables = _Tables(
            *(broker, watch, modes, times, newest), of_groups, with_times, connections, of_topics, with_newest
        )

        def deleted(name: str) -> None:
            for each in (of_groups, with_times, of_topics, with_newest):
                each.expire()

        self._unsubscribe = [broker.topics.on_deleted(deleted), broker.groups.on_deleted(deleted)]

    def stop(self) -> None:
        """Stop answering."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
        tables, self._tables = self._tables, None
        if tables is not None:
            for each in tables[5:]:
                each.close()

    @serves(GROUP_SUMMARIES, action=Action.GET)
    async def of_groups(self, asked: Command, connection: Connection) -> Command:
        """65023: return a page of the groups. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(_GROUP_SORTS), _GROUP_COLUMNS), self._running()
        late = _LATE in (query.sort, query.column)
        table = await (tables.groups_with_times if late else tables.groups).get()
        rows = table.rows
        if lacking := query.lacking(rows, tables.broker.groups.view):
            newer = await group_table(tables.broker, tables.watch, tables.modes, lacking)
            await add_times(newer, newer.rows, tables.times, tables.broker)
            rows = sorted([*rows, *newer.rows], key=attrgetter(NAME))
        rows = [row for row in rows if query.system or not row.system]
        page, total = query.rows(rows, _GROUP_SORTS[query.sort])
        if query.column:
            values = await _column(tables.broker, page, _GROUP_COLUMNS[query.column])
            return _answer(asked, tables.broker, table, total, values)
        await add_times(table, page, tables.times, tables.broker)
        more = {"retry_waiting_more": table.more_retries, "groups": [row.as_json() for row in page]}
        return _answer(asked, tables.broker, table, total, more)

    @serves(CONNECTION_SUMMARIES, action=Action.GET)
    async def of_connections(self, asked: Command, connection: Connection) -> Command:
        """65024: return a page of the connections. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(_CONNECTION_SORTS)), self._running()
        table = await tables.connections.get()
        rows = [row for row in table.rows if query.system or row.client_id]
        page, total = query.rows(rows, _CONNECTION_SORTS[query.sort])
        shown = {"connections": [row.as_json() for row in page]}
        return _answer(asked, tables.broker, table, total, shown)

    @serves(TOPIC_SUMMARIES, action=Action.GET)
    async def of_topics(self, asked: Command, connection: Connection) -> Command:
        """65025: return a page of the topics. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(_TOPIC_SORTS), _TOPIC_COLUMNS), self._running()
        table = await (tables.topics_with_newest if query.column == _NEWEST else tables.topics).get()
        rows = table.rows
        if lacking := query.lacking(rows, tables.broker.topics.view):
            rows = sorted([*rows, *(await topic_table(tables.broker, lacking)).rows], key=attrgetter(NAME))
        rows = [row for row in rows if query.system or row.kind == "normal"]
        page, total = query.rows(rows, _TOPIC_SORTS[query.sort])
        if query.column:
            values = await _column(tables.broker, page, _TOPIC_COLUMNS[query.column])
            return _answer(asked, tables.broker, table, total, values)
        await add_newest(page, tables.newest, tables.broker)
        return _answer(asked, tables.broker, table, total, {"topics": [row.as_json() for row in page]})

    def _running(self) -> _Tables:
        if self._tables is None:
            raise stopping()
        return self._tables


async def _column(broker: BrokerStorage, rows: Sequence[Row], value: Callable[[Row], Any]) -> dict[str, Any]:
    await broker.world.clock.sleep(0)
    found = {"names": [row.name for row in rows], "values": [value(row) for row in rows]}
    await broker.world.clock.sleep(0)
    return found


def _answer(asked: Command, broker: BrokerStorage, table: Table, total: int, more: Mapping[str, Any]) -> Command:
    name = broker.settings.text("brokerName") or broker.world.host_name
    age_ms = max(0, broker.world.clock.now_ms() - table.computed_ms)
    found = {"broker": name, "computed_ms": table.computed_ms, "age_ms": age_ms, "total": total, **more}
    return response_to(asked, 0, None, None, json.dumps(found).encode())
