"""Rows about many topics or groups: summaries of brokers, or rows that are requested one by one.

A broker of GantryMQ returns one value of all rows, by which they are put in order, and then the rows that are shown.
Other brokers are asked name by name: the rows of the page that is shown at once, the others slowly in the background
while the list is looked at. A row says when it was asked for; a table says how many names it knows nothing about,
because only the known rows are in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial, reduce
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import attrs

from gantrymq.client import Admin
from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import ClientError
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_admin.summaries import MAX_ROWS, Summaries, summary_column, summary_page
from gantrymq_admin.summaries import Column as SummaryColumn
from gantrymq_console.data.cluster import Aged, Cluster
from gantrymq_console.values import Long

_AT_ONCE: Final = 8  # requests to one broker
FEW: Final = 100  # names that are all asked for at once
AGE_S: Final = 10.0  # of rows
_COLUMN_AGE_S: Final = 5.0
_ASK_AGAIN_S: Final = 600.0  # before a broker that served no summaries is asked for them again
PER_S: Final = 5.0  # rows asked for in the background
_CHANGED_S: Final = 20.0  # after a change, for which a broker may answer with a summary from before it
_UNSEEN_S: Final = 60.0  # after which nothing is asked in the background any more

Row = TypeVar("Row")
Listed = TypeVar("Listed", bound="ListRow")
Shown = TypeVar("Shown")
Given = TypeVar("Given")
Got = TypeVar("Got")


async def limited(given: Iterable[Given], work: Callable[[Given], Awaitable[None]], at_once: int = _AT_ONCE) -> None:
    """Call *work* for each of *given*, *at_once* at a time. Raises the first exception, and cancels the rest."""
    waiting = iter(given)

    async def some() -> None:
        for each in waiting:
            await work(each)

    tasks = [asyncio.ensure_future(some()) for _ in range(at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def total(one: Any, other: Any) -> Any:
    """Return the sum, None if a number is unknown."""
    return None if one is None or other is None else one + other


def known_sum(one: Any, other: Any) -> Any:
    """Return the sum of the numbers that are known, None if none is."""
    return one if other is None else other if one is None else one + other


def largest(one: Any, other: Any) -> Any:
    """Return the larger of the values that are known."""
    return one if other is None else other if one is None else max(one, other)


def either(one: Any, other: Any) -> Any:
    """Return the first value that is not empty or false."""
    return one or other


@attrs.frozen
class Column:
    """A value of the rows of a list."""

    word: str  # name of the column at brokers that serve summaries; empty: rows cannot be sorted by it
    attribute: str  # of rows
    combine: Callable[[Any, Any], Any]  # combines the values of two brokers
    field: str = ""  # of the brokers' summaries; empty: named like the attribute

    def of(self, parts: Iterable[Any]) -> Any:
        """Return the value of a name, combined from the rows of brokers; at least one broker must have a row."""
        return reduce(self.combine, (getattr(each, self.attribute) for each in parts))


@attrs.frozen
class ListRow:
    """A row of a list: at one broker, or combined from the rows of all brokers."""

    name: str
    as_of_ms: int | None = attrs.field(default=None, kw_only=True)
    partial: bool = attrs.field(default=False, kw_only=True)  # whether a broker did not answer; the sums exclude it
    # Fields that a broker does not report, so that their sums exclude it, or whose value is only a lower bound.
    at_least: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen
class ListQuery:
    """Which rows of a list are shown, and in which order."""

    contains: str
    kind: str  # one of the list's kinds of rows
    sort: str
    down: bool
    start: int
    rows: int


@attrs.frozen
class ListPage:
    """A page of a list, without its rows."""

    filter: str
    sort: str
    down: bool
    start: int
    total: Long
    unknown: int  # without known values, at the end of the order
    partial: bool  # whether a broker did not list its rows

    @classmethod
    def of(cls, query: ListQuery, total: int, unknown: int, partial: bool, **more: Any) -> Self:
        """Return the page that *query* asked for; *more*: fields of the subclass."""
        return cls(query.contains, query.sort, query.down, query.start, Long(total), unknown, partial, **more)


Order: TypeAlias = "tuple[tuple[Column, ...], Callable[..., Any]]"  # columns, and a key of one value of each


@attrs.frozen
class Served(Generic[Listed]):
    """Requests to brokers that serve summaries. Both functions raise RequestNotServed."""

    admin: Admin
    kind: type[Summaries]
    row: type[Listed]
    columns: tuple[Column, ...]  # of rows, which summaries fill

    async def column(self, address: str, word: Any) -> SummaryColumn:
        """Return a value of all rows."""
        return await summary_column(self.admin, address, self.kind, word)

    async def rows(self, address: str, names: Collection[str]) -> tuple[Mapping[str, Listed], int]:
        """Return the rows with *names*, and their age in milliseconds."""
        page = await summary_page(self.admin, address, self.kind, order="name", most=MAX_ROWS, system=True, names=names)
        listed = getattr(page, self.kind.member)
        return {each.name: row_of(self.row, each.name, each, self.columns) for each in listed}, page.age_ms


class BrokerTable(Generic[Row]):
    """The rows of one broker by name."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        address: str,
        served: Served[Any] | None,
        ask: Callable[[str, str], Awaitable[Row | None]],
    ) -> None:
        """Create it.

        Args:
            cluster: where the broker is.
            kind: of the rows, for keys of shared answers.
            address: of the broker.
            served: how brokers with summaries are asked; None: none has them.
            ask: returns the row of the broker with an address for a name, None without one.
        """
        self._cluster = cluster
        self._kind = kind
        self.address = address
        self._served = served
        self._ask = ask
        self.rows: dict[str, Aged[Row | None]] = {}
        self._columns_ms = 0  # wall time of the last column
        self._not_served_ms: int | None = None if served is not None else 0  # monotonic time
        self._seen_ms = 0
        self._everything: Collection[str] = ()
        self._changed: dict[str, int] = {}  # monotonic time until which a summary may be from before the change

    @property
    def walks(self) -> bool:
        """Whether the broker serves no summaries."""
        return self._not_served_ms is not None

    async def column(self, column: Column, everything: Collection[str] = ()) -> Aged[Mapping[str, Any]]:
        """Return a value of all rows by name, at most `_COLUMN_AGE_S` older than the broker's.

        A broker without summaries is asked for *everything*: at once if there are few names, otherwise in the
        background; then the values are the ones known so far.
        """
        if self._served is not None and self.may_serve:
            make = partial(self._served.column, self.address, column.word)
            key = ("column", self._kind, self.address, column.word)
            found = await self._if_served(self._cluster.shared(key, _COLUMN_AGE_S, make))
            if found is not None:
                self._columns_ms = found.as_of_ms - found.value.age_ms
                return Aged(await self._with_changes(found.value.values, column.attribute), self._columns_ms)
        await self.refresh(everything if len(everything) <= FEW else (), everything)
        rows = {name: row for name, row in self.rows.items() if row.value is not None}
        oldest_ms = min((row.as_of_ms for row in rows.values()), default=self._cluster.world.clock.now_ms())
        return Aged({name: getattr(row.value, column.attribute) for name, row in rows.items()}, oldest_ms)

    async def refresh(self, names: Collection[str], everything: Collection[str] = ()) -> None:
        """Request the rows of *names* that are older than `AGE_S`.

        A broker without summaries is asked for *everything* in the background.
        """
        self._seen_ms = self._now_ms()
        old = [name for name in names if self.is_old(name)]
        if self._served is not None and self.may_serve:
            changed = self._recent()
            await limited([name for name in old if name in changed], self._refresh_one)
            old = [name for name in old if name not in changed]
            if not old:
                return
            found = await self._if_served(self._served.rows(self.address, old))
            if found is not None:
                rows, age_ms = found
                as_of_ms = self._cluster.world.clock.now_ms() - age_ms
                self.rows |= {name: Aged(rows.get(name), as_of_ms) for name in old}
                return
        await limited(old, self._refresh_one)
        self._everything = everything
        if len(everything) > len(names):
            self._cluster.keep_on(("walk", self._kind, self.address), self._walk)

    async def refresh_each(self, names: Iterable[str]) -> None:
        """Request the rows of *names* that are older than `AGE_S` one by one, and nothing else."""
        await limited([name for name in names if self.is_old(name)], self._refresh_one)

    def tells(self, name: str) -> bool:
        """Return whether it is known that the broker has a row of *name*, or that it has none."""
        return name in self.rows

    def forget(self, names: Collection[str] = ()) -> None:
        """Drop rows that a change made wrong; without *names*, all rows."""
        self._changed = self._recent() | dict.fromkeys(names, self._now_ms() + int(_CHANGED_S * 1000))
        for name in names or list(self.rows):
            self.rows.pop(name, None)

    def as_of_ms(self, name: str) -> int | None:
        """Return when a value of the row was computed, None if nothing is known."""
        if not self.walks:
            return self._columns_ms
        row = self.rows.get(name)
        return None if row is None else row.as_of_ms

    def _recent(self) -> dict[str, int]:
        """Return the names that were changed lately; they are asked for one by one."""
        now_ms = self._now_ms()
        return {name: until for name, until in self._changed.items() if until > now_ms}

    async def _with_changes(self, values: Mapping[str, Any], attribute: str) -> Mapping[str, Any]:
        """Return a column with the values of now for the names that were changed lately."""
        changed = self._recent()
        if not changed:
            return values
        await limited([name for name in changed if self.is_old(name)], self._refresh_one)
        found = {name: value for name, value in values.items() if name not in changed}
        rows = {name: self.rows[name].value for name in changed}
        return found | {name: getattr(row, attribute) for name, row in rows.items() if row is not None}

    @property
    def may_serve(self) -> bool:
        """Whether the broker may serve summaries, so that it is asked for them."""
        if self._served is None:
            return False
        return self._not_served_ms is None or self._now_ms() - self._not_served_ms >= _ASK_AGAIN_S * 1000

    async def _if_served(self, asked: Awaitable[Got]) -> Got | None:
        """Return the answer, None from a broker without summaries."""
        try:
            found = await asked
        except RequestNotServed:
            self._not_served_ms = self._now_ms()
            return None
        self._not_served_ms = None
        return found

    async def _refresh_one(self, name: str) -> None:
        row = await self._ask(self.address, name)
        self.rows[name] = Aged(row, self._cluster.world.clock.now_ms())

    async def _walk(self) -> None:
        """Request all rows, slowly, the unknown ones first, while visitors use the list."""
        clock, rows = self._cluster.world.clock, self.rows
        while self._everything:
            for name in sorted(self._everything, key=lambda name: rows[name].as_of_ms if name in rows else 0):
                await clock.sleep(1 / PER_S)
                if self._now_ms() - self._seen_ms > _UNSEEN_S * 1000:
                    return
                try:
                    await self._refresh_one(name)
                except ClientError:
                    await clock.sleep(AGE_S)  # the page names the broker that does not answer

    def is_old(self, name: str) -> bool:
        """Return whether the row has to be asked for again."""
        known = self.rows.get(name)
        if known is None:
            return True
        age_ms = self._cluster.world.clock.now_ms() - known.as_of_ms
        return not 0 <= age_ms < AGE_S * 1000  # negative: the clock was set back

    def _now_ms(self) -> int:
        return monotonic_ms(self._cluster.world.clock)


@attrs.define
class Tables(Generic[Row]):
    """The tables of all brokers for one page. A broker that does not answer is not asked again for the page."""

    brokers: dict[str, BrokerTable[Row]] = attrs.field(factory=dict)  # by broker name
    _silent: set[str] = attrs.field(factory=set)

    async def column(self, asking: Asking, column: Column, everything: Collection[str] = ()) -> Aged[Mapping[str, Any]]:
        """Return a value of all rows by name, for the whole cluster, with the time of the oldest part."""
        parts = list((await self._ask(asking, lambda table: table.column(column, everything), 0.8)).values())
        if len(parts) == 1:
            return parts[0]
        merged: dict[str, Any] = {}
        for part in parts:
            for name, value in part.value.items():
                merged[name] = column.combine(merged[name], value) if name in merged else value
        return Aged(merged, min((part.as_of_ms for part in parts), default=0))

    async def page(
        self, asking: Asking, names: Iterable[str], order: Order, query: ListQuery, make: Callable[[str], Shown]
    ) -> tuple[tuple[Shown, ...], int | None]:
        """Return the rows that *make* returns for the page of *query*, and the time of the oldest value of the order.

        The order is a key and the columns whose values it is made of; without columns it is by name.
        """
        (columns, key), down, shown = order, query.down, slice(query.start, query.start + query.rows)
        found = sorted(names, reverse=down and not columns)
        values = [await self.column(asking, each, found) for each in columns]
        if values:
            found.sort(key=lambda name: key(*(each.value.get(name) for each in values)), reverse=down)
        await self.refresh(asking, found if len(found) <= FEW else found[shown], found)
        rows = [make(name) for name in found[shown]]
        if values:  # rows may be newer than the values of the order
            rows.sort(key=lambda row: key(*(getattr(row, each.attribute) for each in columns)), reverse=down)
        return tuple(rows), min((each.as_of_ms for each in values), default=None)

    async def refresh(self, asking: Asking, names: Collection[str], everything: Collection[str]) -> None:
        """Ask the brokers for rows, see `BrokerTable.refresh`."""
        await self._ask(asking, lambda table: table.refresh(names, everything))

    async def _ask(
        self, asking: Asking, ask: Callable[[BrokerTable[Row]], Coroutine[Any, Any, Got]], share: float = 1.0
    ) -> dict[str, Got]:
        asked = {name: ask(table) for name, table in self.brokers.items() if name not in self._silent}
        found = await asking.all(asked, share)
        self._silent |= asked.keys() - found.keys()
        return found

    def leave_out(self, names: Iterable[str]) -> None:
        """Do not ask brokers any more that have not answered another request for this page."""
        self._silent.update(names)

    @property
    def complete(self) -> bool:
        """Whether all brokers have answered so far."""
        return not self._silent

    def parts(self, name: str) -> list[Aged[Row]]:
        """Return the rows of brokers for *name*."""
        found = [
            table.rows[name]
            for broker, table in self.brokers.items()
            if name in table.rows and not (broker in self._silent and table.is_old(name))
        ]
        return [Aged(each.value, each.as_of_ms) for each in found if each.value is not None]

    def partial(self, name: str) -> bool:
        """Return whether a broker did not answer about *name*, so that sums are too small."""
        return bool(self._silent) or not all(table.tells(name) for table in self.brokers.values())

    def unknown(self, names: Collection[str]) -> int:
        """Return how many of *names* a broker was not asked for yet."""
        walking = [table.rows for table in self.brokers.values() if table.walks]
        return sum(any(name not in rows for rows in walking) for name in names) if walking else 0

    def forget(self, *names: str) -> None:
        """Drop rows that a change made wrong; without *names*, all rows."""
        for table in self.brokers.values():
            table.forget(names)


def row_of(kind: type[Listed], name: str, summary: object, columns: Iterable[Column]) -> Listed:
    """Return the row of one broker with the values of its summary."""
    return kind(name, **{each.attribute: getattr(summary, each.field or each.attribute) for each in columns})


def oldest_ms(rows: Iterable[ListRow]) -> int | None:
    """Return when the oldest of *rows* was computed, None if nothing is known."""
    return min((each.as_of_ms for each in rows if each.as_of_ms is not None), default=None)


def combined(
    tables: Tables[Listed], row: Listed, columns: Iterable[Column], not_all_report: Iterable[str] = ()
) -> Listed:
    """Return *row*, which has a name, with the values of all brokers; unchanged if no broker has answered.

    *not_all_report*: fields that brokers without summaries do not report.
    """
    aged = tables.parts(row.name)
    if not aged:
        return row
    parts = [each.value for each in aged]
    return attrs.evolve(
        row,
        as_of_ms=min(each.as_of_ms for each in aged),
        partial=tables.partial(row.name),
        at_least=tuple(name for name in not_all_report if any(getattr(each, name) is None for each in parts)),
        **{each.attribute: each.of(parts) for each in columns},
    )


async def tables_of(
    cluster: Cluster, kind: str, served: Served[Any], ask: Callable[[str, str], Awaitable[Row | None]]
) -> Tables[Row]:
    """Return the tables of a kind, for all brokers that are, or were, registered."""
    kept: Tables[Row] = cluster.kept.setdefault(kind, Tables())
    readers = await cluster.readers()
    kept.brokers = {
        name: table
        if (table := kept.brokers.get(name)) is not None and table.address == address
        else BrokerTable(cluster, kind, address, served, ask)
        for name, address in readers.items()
    }
    return Tables(dict(kept.brokers))
