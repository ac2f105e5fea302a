"""Requests for lists by page: 65023 groups, 65024 connections, 65025 topics.

    body    {"sort", "contains", "start", "most", "system"}, all optional
            sort      65023: behind, late or name; 65024: name, since or heard; 65025: name, kept, put or got.
                      Names ascend, all else descends. The name of a connection is its client id, or its address.
            contains  only names with this text, in any case; for connections also addresses and groups
            start     number of the first row, from 0
            most      number of rows, 1 to 200; default 50
            system    whether to include what belongs to the broker; for topics also retry and dead letter topics, for
                      connections those without a heartbeat
    answer  {"broker", "computed_ms", "total", ...}, and the rows as "groups", "connections" or "topics"

The tables are computed in short steps and kept for some seconds (`SharedTable`); ``computed_ms`` is the time of the
table, ``total`` the number of rows that fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from gantrymq.errors import FormatError, InvalidParameter, ServiceNotAvailable
from gantrymq.interfaces import Broker
from gantrymq.model.access import Action
from gantrymq.model.json_members import COUNT, flag_in, number_in, text_in
from gantrymq.remoting.bodies import object_body_of
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import serves
from gantrymq_diagnosis.connection_rows import ConnectionRow, ConnectionTable, connection_table
from gantrymq_diagnosis.group_rows import GroupRow, GroupTable, StoredTimes, add_times, group_table
from gantrymq_diagnosis.pop_modes import PopModes
from gantrymq_diagnosis.shared_table import SharedTable
from gantrymq_diagnosis.topic_rows import TopicRow, TopicTable, add_newest, topic_table
from gantrymq_diagnosis.watch import Watch

__all__ = ["CONNECTION_SUMMARIES", "GROUP_SUMMARIES", "MAX_ROWS", "TOPIC_SUMMARIES", "Summaries"]

GROUP_SUMMARIES: Final = 65023
CONNECTION_SUMMARIES: Final = 65024
TOPIC_SUMMARIES: Final = 65025
MAX_ROWS: Final = 200
DEFAULT_ROWS: Final = 50

NAME: Final = "name"
LATE: Final = "late"


def _late(row: GroupRow) -> float:
    """Return the sort key for the oldest message first, then unknown ones, then groups that are not behind."""
    if row.oldest_ms is not None:
        return -row.oldest_ms
    return float("-inf") if not row.behind else -9e18


GROUP_SORTS: Final[Mapping[str, Callable[[GroupRow], Any]]] = {
    "behind": attrgetter("behind"),
    LATE: _late,
    NAME: attrgetter("name"),
}
CONNECTION_SORTS: Final[Mapping[str, Callable[[ConnectionRow], Any]]] = {
    NAME: attrgetter("name"),
    "since": attrgetter("online.since_ms"),
    "heard": attrgetter("online.heard_ms"),
}
TOPIC_SORTS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    NAME: attrgetter("name"),
    "kept": lambda row: row.max_sum - row.min_sum,
    "put": attrgetter("put_per_s"),
    "got": attrgetter("got_per_s"),
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

    @classmethod
    def of(cls, asked: Command, sorts: Sequence[str]) -> PageQuery:
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
                number_in(body, "most", DEFAULT_ROWS),
                flag_in(body, "system", False),
            )
        except FormatError as problem:
            raise InvalidParameter(f"request {asked.code}: {problem}") from problem
        if query.sort not in sorts:
            raise InvalidParameter(f"request {asked.code}: sort={query.sort} is not one of {', '.join(sorts)}")
        if not 1 <= query.most <= MAX_ROWS:
            raise InvalidParameter(f"request {asked.code}: most={query.most}: a page has 1 to {MAX_ROWS} rows")
        return query

    def rows(self, rows: Sequence[Row], key: Callable[[Row], Any]) -> tuple[list[Row], int]:
        """Return the rows of the page, and the number of rows that fit."""
        found = sorted((row for row in rows if self.contains in row.searched.lower()), key=attrgetter(NAME))
        if self.sort != NAME:
            found.sort(key=key, reverse=True)  # stable: equal ones remain in the order of their names
        return found[self.start : self.start + self.most], len(found)


class _Tables(NamedTuple):
    """What is used between start and stop."""

    broker: Broker
    times: StoredTimes  # of groups
    newest: StoredTimes  # of topics
    groups: SharedTable[GroupTable]
    groups_with_times: SharedTable[GroupTable]
    connections: SharedTable[ConnectionTable]
    topics: SharedTable[TopicTable]


class Summaries:
    """Handlers of these requests; may be started again after a stop."""

    def __init__(self) -> None:
        """Create handlers without a broker."""
        self._tables: _Tables | None = None

    def start(self, broker: Broker, watch: Watch, modes: PopModes) -> None:
        """Answer for *broker*; *watch* knows its members, *modes* the groups that pop."""
        clock, times, newest = broker.world.clock, StoredTimes(broker), StoredTimes(broker)

        async def groups() -> GroupTable:
            times.next_table()
            return await group_table(broker, watch, modes)

        async def groups_with_times() -> GroupTable:
            table = await of_groups.get()
            await add_times(table.rows, times, broker)
            return table

        async def topics() -> TopicTable:
            newest.next_table()
            return await topic_table(broker)

        of_groups = SharedTable(clock, groups)
        with_times = SharedTable(clock, groups_with_times)
        connections = SharedTable(clock, lambda: connection_table(broker))
        of_topics = SharedTable(clock, topics)
        self._tables = _Tables(broker, times, newest, of_groups, with_times, connections, of_topics)

    def stop(self) -> None:
        """Stop answering."""
        tables, self._tables = self._tables, None
        if tables is not None:
            for each in (tables.groups, tables.groups_with_times, tables.connections, tables.topics):
                each.close()

    @serves(GROUP_SUMMARIES, action=Action.GET)
    async def of_groups(self, asked: Command, connection: Connection) -> Command:
        """65023: return a page of the groups. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(GROUP_SORTS)), self._running()
        table = await (tables.groups_with_times if query.sort == LATE else tables.groups).get()
        rows = [row for row in table.rows if query.system or not row.system]
        page, total = query.rows(rows, GROUP_SORTS[query.sort])
        await add_times(page, tables.times, tables.broker)
        shown = [row.as_json(table.computed_ms) for row in page]
        more = {"retry_waiting_more": table.more_retries, "groups": shown}
        return _answer(asked, tables.broker, table.computed_ms, total, more)

    @serves(CONNECTION_SUMMARIES, action=Action.GET)
    async def of_connections(self, asked: Command, connection: Connection) -> Command:
        """65024: return a page of the connections. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(CONNECTION_SORTS)), self._running()
        table = await tables.connections.get()
        rows = [row for row in table.rows if query.system or row.online.client_id]
        page, total = query.rows(rows, CONNECTION_SORTS[query.sort])
        shown = {"connections": [row.as_json() for row in page]}
        return _answer(asked, tables.broker, table.computed_ms, total, shown)

    @serves(TOPIC_SUMMARIES, action=Action.GET)
    async def of_topics(self, asked: Command, connection: Connection) -> Command:
        """65025: return a page of the topics. Raises InvalidParameter, ServiceNotAvailable (stopping)."""
        query, tables = PageQuery.of(asked, tuple(TOPIC_SORTS)), self._running()
        table = await tables.topics.get()
        rows = [row for row in table.rows if query.system or row.kind == "normal"]
        page, total = query.rows(rows, TOPIC_SORTS[query.sort])
        await add_newest(page, tables.newest, tables.broker)
        return _answer(asked, tables.broker, table.computed_ms, total, {"topics": [row.as_json() for row in page]})

    def _running(self) -> _Tables:
        if self._tables is None:
            raise ServiceNotAvailable("the broker is stopping; ask again when it is back, see: gantrymq status")
        return self._tables


def _answer(asked: Command, broker: Broker, computed_ms: int, total: int, more: Mapping[str, Any]) -> Command:
    name = broker.settings.text("brokerName") or broker.world.host_name
    found = {"broker": name, "computed_ms": computed_ms, "total": total, **more}
    return response_to(asked, 0, None, None, json.dumps(found).encode())
