"""Support for the store contract: an open store, a clock that does not advance by itself, and the runner of a case.

A case runs with its own store, on its own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest

from gantrymq.errors import FilterBudgetExceeded
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import (
    BoundaryType,
    DispatchEntry,
    GetLimit,
    GetResult,
    MessageFilter,
    MessageStore,
    PutResult,
    PutStatus,
    QueryResult,
    RecoveryReport,
    StoreCapabilities,
    StoreMessage,
)
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq.world import Clock, Timer, World
from gantrymq.world.real import real_world

Part = TypeVar("Part")
START_MS = 1_800_000_000_000
T0 = Queue("T", 0)
NEVER = Queue("Never", 0)


class StandingClock:
    """Wall time changes only when a test sets ``now``; timers and durations use the underlying clock."""

    def __init__(self, underneath: Clock) -> None:
        self.now = START_MS
        self._underneath = underneath

    def now_ms(self) -> int:
        """Return the time set by the test."""
        return self.now

    def utc_offset_ms(self, at_ms: int) -> int:
        """The clock underneath."""
        return self._underneath.utc_offset_ms(at_ms)

    def monotonic(self) -> float:
        """The clock underneath."""
        return self._underneath.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """The clock underneath."""
        return self._underneath.call_later(delay_s, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """The clock underneath."""
        await self._underneath.sleep(seconds)


class StoreBench:
    """A store under test."""

    def __init__(self, make: Callable[[], MessageStore], clock: StandingClock) -> None:
        self._make = make
        self.clock = clock
        self.store = make()
        self.capabilities = StoreCapabilities.of(self.store)

    def require(self, part: Part | None) -> Part:
        """Return an optional interface of the store; skip the test if the store lacks it."""
        if part is None:
            pytest.skip("the store does not support it")
        return part

    async def restart(self) -> RecoveryReport:
        """Stop the store cleanly and open its folder with a new one."""
        await self.store.stop()
        self.store = self._make()
        self.capabilities = StoreCapabilities.of(self.store)
        return await self.store.start()

    async def add(self, *messages: StoreMessage) -> list[PutResult]:
        """Put, wait until flushed, publish; every message must be taken."""
        results = self.store.put(messages)
        assert [result.status for result in results] == [PutStatus.OK] * len(messages), results
        await self.publish(results)
        return results

    async def publish(self, results: Sequence[PutResult]) -> Sequence[DispatchEntry]:
        """Wait until the last of *results* is flushed and publish up to its end."""
        await self.store.flushed(results[-1].end)
        return self.store.publish(results[-1].end)

    async def get(
        self, queue: Queue, queue_offset: int, limit: GetLimit | None = None, match: MessageFilter | None = None
    ) -> GetResult:
        """Call `MessageStore.get`, awaiting it if needed, and check its consistency."""
        result = self.store.get(queue, queue_offset, limit or GetLimit(), match)
        if isawaitable(result):
            result = await result
        assert isinstance(result, GetResult)
        assert result.size == sum(len(buffer) for buffer in result.buffers)
        assert result.count == len(records_of(result))
        return result

    async def read_all(
        self, queue: Queue, queue_offset: int = 0, limit: GetLimit | None = None, match: MessageFilter | None = None
    ) -> list[RecordView]:
        """Return every record from *queue_offset* on, with repeated gets; each must make progress."""
        found: list[RecordView] = []
        while queue_offset < self.store.bounds(queue).max_offset:
            result = await self.get(queue, queue_offset, limit, match)
            assert queue_offset < result.next_offset <= result.max_offset, result.status
            found += records_of(result)
            queue_offset = result.next_offset
        return found

    async def query(
        self, key: str, window_ms: tuple[int, int] = (0, 1 << 62), limit: int = 32, topic: str = "T"
    ) -> tuple[list[RecordView], str]:
        """Call `KeyQueries.query`, awaiting it if needed: the records, and whether the result may be incomplete."""
        result = self.require(self.capabilities.key_queries).query(topic, key, *window_ms, limit)
        if not isinstance(result, QueryResult):
            result = await result
        records = [record for buffer in result.records for record in iter_records(buffer)]
        assert bool(result.problem) is not bool(records and result.complete), result.problem
        return records, result.problem

    async def view(self, log_offset: int) -> RecordView | None:
        """Call `StoreCapabilities.view`, awaiting it if needed."""
        result = self.capabilities.view(log_offset)
        return await result if isawaitable(result) else result

    async def offsets_at(self, queue: Queue, time_ms: int) -> tuple[int, int]:
        """Return both boundaries of a look-up by time."""
        offset_at = self.require(self.capabilities.time_search).offset_at
        return await offset_at(queue, time_ms, BoundaryType.LOWER), await offset_at(queue, time_ms, BoundaryType.UPPER)


class OnlyTags:
    """A filter for some tags that decides on the queue entry, or else only on the message."""

    accepts_all = False

    def __init__(self, *tags: str, needs_message: bool = False) -> None:
        self.needs_message = needs_message
        self._tags = tags
        self._codes = {tags_code(tag) for tag in tags}

    def match_entry(self, tags_code: int, ext: object) -> bool:
        """By tag code."""
        return self.needs_message or tags_code in self._codes

    def match_message(self, record: RecordView) -> bool:
        """By the property."""
        return record.properties.get(properties.TAGS) in self._tags


class ShortTurn(OnlyTags):
    """As above, but its turn is over after a number of messages."""

    def __init__(self, asked: int, *tags: str, needs_message: bool = False) -> None:
        super().__init__(*tags, needs_message=needs_message)
        self._left = asked

    def match_entry(self, tags_code: int, ext: object) -> bool:
        """By tag code, as long as the turn lasts."""
        if not self.needs_message:
            self._count()
        return super().match_entry(tags_code, ext)

    def match_message(self, record: RecordView) -> bool:
        """By the property, as long as the turn lasts."""
        self._count()
        return super().match_message(record)

    def _count(self) -> None:
        if not self._left:
            raise FilterBudgetExceeded("its turn is over")
        self._left -= 1


def message(
    topic: str = "T", queue_id: int = 0, body: bytes | memoryview = b"body", tag: str = "", **more: Any
) -> StoreMessage:
    """Return a message with a TAGS property (none for ``""``) and its tag code."""
    text = properties.encode({properties.TAGS: tag} if tag else {})
    return StoreMessage(topic, queue_id, body, more.pop("properties", text), tags_code=tags_code(tag), **more)


def keyed(body: bytes, keys: str = "", unique: str = "", topic: str = "T", **more: Any) -> StoreMessage:
    """Return a message with KEYS and UNIQ_KEY properties, if given."""
    pairs = {properties.KEYS: keys, properties.UNIQ_KEY: unique}
    text = properties.encode({name: value for name, value in pairs.items() if value})
    return StoreMessage(topic, 0, body, text, **more)


def records_of(result: GetResult) -> list[RecordView]:
    """Return the records in a get's buffers, in order."""
    return [record for buffer in result.buffers for record in iter_records(buffer)]


def bodies(records: Sequence[RecordView]) -> list[bytes]:
    """Their bodies."""
    return [bytes(record.body) for record in records]


Case = Callable[[Any, StoreBench], Awaitable[None]]


def with_store(**settings: Any) -> Callable[[Case], Callable[[Any, Path], None]]:
    """Run an async test method with a `StoreBench` on its own event loop."""

    def decorate(case: Case) -> Callable[[Any, Path], None]:
        def run(self: StoreCases, tmp_path: Path) -> None:
            asyncio.run(self.drive(case, tmp_path / "store", settings))

        run.__name__, run.__doc__ = case.__name__, case.__doc__
        return run

    return decorate


class StoreCases:
    """Creates stores; the cases are in the derived classes."""

    durable = True
    """Whether messages survive a stop and a start on the same folder."""

    def make_store(self, world: World, root: Path, **settings: Any) -> MessageStore:
        """Create a store on *root* without starting it; called again on the same folder for a restart."""
        raise NotImplementedError

    def make_world(self) -> World:
        """The store's world; its clock is replaced by one that stands still."""
        return real_world()

    async def drive(self, case: Case, root: Path, settings: dict[str, Any]) -> None:
        """Open a store, run *case* and stop the store."""
        world = self.make_world()
        clock = StandingClock(world.clock)
        world = attrs.evolve(world, clock=clock)
        bench = StoreBench(lambda: self.make_store(world, root, **settings), clock)
        await bench.store.start()
        try:
            await case(self, bench)
        finally:
            await bench.store.stop()
            await world.workers.close()
