"""Rows about many topics or groups: summaries of brokers that serve them, else rows that are asked for one by one.

A broker of GantryMQ returns all rows in pages. Other brokers are asked name by name: the rows of the page that is shown
at once, the others slowly in the background while the list is looked at. A row says when it was asked for; a table says
how many names it knows nothing about, because the order of the rows is that of the known ones only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

import attrs

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import ClientError
from gantrymq.world.clock import Clock, monotonic_ms
from gantrymq.world.time_slices import TimeSlices
from gantrymq_console.data.cluster import Aged, Cluster

__all__ = ["FEW", "BrokerTable", "Tables", "each_of", "limited"]

AT_ONCE: Final = 8  # requests to one broker
FEW: Final = 100  # names that are all asked for at once
AGE_S: Final = 10.0  # of rows and summaries
ASK_AGAIN_S: Final = 600.0  # before a broker that served no summaries is asked for them again
TOGETHER: Final = 500  # rows made in one step of the event loop
PER_S: Final = 5.0  # rows asked for in the background
UNSEEN_S: Final = 60.0  # after which nothing is asked in the background any more

Row = TypeVar("Row")
Given = TypeVar("Given")


async def limited(given: Iterable[Given], work: Callable[[Given], Awaitable[None]], at_once: int = AT_ONCE) -> None:
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


async def each_of(names: Iterable[str], make: Callable[[str], Given], clock: Clock) -> list[Given]:
    """Return what *make* returns for each of *names*, in short steps of the event loop."""
    slices, found = TimeSlices(clock, TOGETHER), []
    for name in names:
        found.append(make(name))
        await slices.item_done()
    return found


class BrokerTable(Generic[Row]):
    """The rows of one broker by name."""

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        address: str,
        summarize: Callable[[str], Awaitable[Mapping[str, Row]]] | None,
        ask: Callable[[str, str], Awaitable[Row | None]],
    ) -> None:
        """Create it.

        Args:
            cluster: where the broker is.
            kind: of the rows, for keys of shared answers.
            address: of the broker.
            summarize: returns all rows of the broker with an address, raises RequestNotServed; None: none does.
            ask: returns the row of the broker with an address for a name, None without one.
        """
        self._cluster = cluster
        self._kind = kind
        self.address = address
        self._summarize = summarize
        self._ask = ask
        self.rows: dict[str, Aged[Row | None]] = {}
        self._summarized_ms: int | None = None  # monotonic time
        self._not_served_ms: int | None = None if summarize is not None else 0
        self._seen_ms = 0
        self._everything: Collection[str] = ()

    @property
    def walks(self) -> bool:
        """Whether the broker serves no summaries."""
        return self._not_served_ms is not None

    async def refresh(self, names: Collection[str], everything: Collection[str]) -> None:
        """Ask for rows older than `AGE_S`: those of *names*, or all if the broker serves summaries.

        *everything* is asked for in the background otherwise.
        """
        self._seen_ms = self._now_ms()
        asked_long_ago = self._not_served_ms is None or self._seen_ms - self._not_served_ms >= ASK_AGAIN_S * 1000
        if self._summarize is not None and asked_long_ago:
            try:
                await self._refresh_all(self._summarize)
                return
            except RequestNotServed:
                self._not_served_ms = self._now_ms()
        await limited([name for name in names if self._is_old(name)], self._refresh_one)
        self._everything = everything
        if len(everything) > len(names):
            self._cluster.keep_on(("walk", self._kind, self.address), self._walk)

    def tells(self, name: str) -> bool:
        """Return whether the broker has told its row of *name*, or that it has none."""
        return name in self.rows or self._summarized_ms is not None

    def forget(self, names: Collection[str] = ()) -> None:
        """Drop rows that a change made wrong; all of them without *names*."""
        self._summarized_ms = None
        for name in names or list(self.rows):
            self.rows.pop(name, None)

    async def _refresh_all(self, summarize: Callable[[str], Awaitable[Mapping[str, Row]]]) -> None:
        now = self._now_ms()
        if self._summarized_ms is not None and now - self._summarized_ms < AGE_S * 1000:
            return
        found = await self._cluster.shared(
            ("summaries", self._kind, self.address), AGE_S / 2, lambda: summarize(self.address)
        )
        self.rows.clear()
        self.rows |= {name: Aged(row, found.as_of_ms) for name, row in found.value.items()}
        self._summarized_ms, self._not_served_ms = now, None

    async def _refresh_one(self, name: str) -> None:
        row = await self._ask(self.address, name)
        self.rows[name] = Aged(row, self._cluster.world.clock.now_ms())

    async def _walk(self) -> None:
        """Ask for all rows, slowly, the unknown ones first, until nobody looks any more."""
        clock, rows = self._cluster.world.clock, self.rows
        while True:
            for name in sorted(self._everything, key=lambda name: rows[name].as_of_ms if name in rows else 0):
                await clock.sleep(1 / PER_S)
                if self._now_ms() - self._seen_ms > UNSEEN_S * 1000:
                    return
                try:
                    await self._refresh_one(name)
                except ClientError:
                    await clock.sleep(AGE_S)  # the page names the broker that does not answer

    def _is_old(self, name: str) -> bool:
        known = self.rows.get(name)
        return known is None or self._cluster.world.clock.now_ms() - known.as_of_ms >= AGE_S * 1000

    def _now_ms(self) -> int:
        return monotonic_ms(self._cluster.world.clock)


@attrs.define
class Tables(Generic[Row]):
    """The tables of all brokers, by broker name."""

    brokers: dict[str, BrokerTable[Row]] = attrs.field(factory=dict)

    def parts(self, name: str) -> list[Aged[Row]]:
        """Return what brokers know about *name*."""
        found = [table.rows[name] for table in self.brokers.values() if name in table.rows]
        return [Aged(each.value, each.as_of_ms) for each in found if each.value is not None]

    def partial(self, name: str) -> bool:
        """Return whether a broker has not told what it knows about *name*, so that sums are too small."""
        return not all(table.tells(name) for table in self.brokers.values())

    def unknown(self, names: Collection[str]) -> int:
        """Return how many of *names* a broker was not asked for yet."""
        walking = [table.rows for table in self.brokers.values() if table.walks]
        return sum(any(name not in rows for rows in walking) for name in names)

    def forget(self, *names: str) -> None:
        """Drop rows that a change made wrong; all of them without *names*."""
        for table in self.brokers.values():
            table.forget(names)
