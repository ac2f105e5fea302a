"""Finds which messages of the delay levels were delivered before a stop that saved no progress.

delayOffset.json is some seconds old after a kill. A Java broker delivers the messages of these seconds again; here the
log says which were delivered: a delivery carries REAL_TOPIC, REAL_QID and UNIQ_KEY of the message that waited, and lies
after it. The log is read from the first place where a delivery of the levels' next messages can be. The index by key is
not used: it may be behind the log, or switched off.

Messages of a level are delivered in their order, except that those after one that the store refused may be delivered
before it, at most `MOST_MESSAGES` of them. A message without a unique key, or that names no place to go to, leaves no
trace; it counts as delivered if a later one was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.interfaces import BoundaryType, Broker, DispatchEntry, GetLimit
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world.time_slices import TimeSlices
from gantrymq_schedule.levels.due import Due, read_due, read_from
from gantrymq_schedule.levels.release import real_place
from gantrymq_schedule.levels.table import queue_of

__all__ = ["Resumed", "Stopped", "find_delivered"]

log = logging.getLogger(__name__)

AHEAD: Final = 4096  # messages of a level that are read after the last one whose delivery was found
_READ: Final = GetLimit(64, 512 * 1024)
_FIRST: Final = GetLimit(1)
_SCANNED_TOGETHER: Final = 10_000  # log entries of one step of the thread
_DELIVERIES_TOGETHER: Final = 64  # without a pause

_Key = tuple[str, int, int, str]  # real topic, queue id, level, unique key


class Stopped(NamedTuple):
    """One level as it was saved."""

    level: int
    position: int  # queue offset of the next message
    delay_ms: int | None  # None for a level that the settings no longer have


class Resumed(NamedTuple):
    """How far one level was delivered."""

    position: int  # queue offset of the first message that was not delivered
    beyond: set[int]  # queue offsets after it that were


async def find_delivered(
    broker: Broker, levels: Iterable[Stopped], delays_ms: tuple[int, ...], stopping: Callable[[], bool]
) -> dict[int, Resumed]:
    """How far each level that has something due was delivered.

    Args:
        broker: nothing is delivered meanwhile.
        levels: as they were saved; their queues have messages from there on.
        delays_ms: of all levels, the first is level 1.
        stopping: ends the search early; what was found so far is returned.

    Raises:
        StoreError: the disk cannot be read.
    """
    store = broker.store
    found: dict[int, _Level] = {}
    begin = end = store.state().published_offset
    for stopped in levels:
        first = await _first_delivery(broker, stopped, delays_ms)
        if first is not None:
            found[stopped.level] = _Level(broker, stopped, delays_ms)
            begin = min(begin, first)
    begin = max(begin, store.state().min_log_offset)
    entries = store.scan(begin, end)
    if found:
        log.info("what the delay levels delivered is looked up in %d bytes of the log", end - begin)
    slices, more = TimeSlices(broker.world.clock, _DELIVERIES_TOGETHER), bool(found)
    while more and not stopping():
        deliveries, more = await broker.world.workers.run(_next_deliveries, entries)
        for key, log_offset in deliveries:
            if (level := found.get(key[2])) is not None:
                await level.delivered(key, log_offset, slices)
        for each in found.values():
            each.prune()
    return {level: each.resumed() for level, each in found.items()}


async def _first_delivery(broker: Broker, stopped: Stopped, delays_ms: tuple[int, ...]) -> int | None:
    """A log offset before which no message of a level from its position on was delivered; None if none was at all.

    What was delivered to a queue was stored there once it was due, so the queue is searched by that time. Several
    messages are looked at, as the first may be one that its topic never took.
    """
    store, clock = broker.store, broker.world.clock
    due = await _due(broker, stopped, delays_ms)
    targets: dict[Queue, int] = {}
    for record, time_ms in due.records:
        if time_ms > clock.now_ms():  # the clock was set back meanwhile
            return record.log_offset
        try:
            target = Queue(*real_place(record.properties))
        except MessageIllegal:
            continue
        targets.setdefault(target, time_ms)
    begins: list[int] = []
    for target, time_ms in targets.items():
        at = await store.offset_at(target, time_ms, BoundaryType.LOWER)
        if at < broker.bounds(target).max_offset:
            read = await read_from(broker, target, at, _FIRST, delays_ms)
            begins.append(read.records[0][0].log_offset if read.records else 0)
    return max(min(begins), due.records[0][0].log_offset) if begins else None


async def _due(broker: Broker, stopped: Stopped, delays_ms: tuple[int, ...]) -> Due:
    now_ms = broker.world.clock.now_ms()
    return await read_due(broker, queue_of(stopped.level), stopped.position, now_ms, stopped.delay_ms, delays_ms)


class _Level:
    """Messages of one level that wait for their delivery to be found."""

    def __init__(self, broker: Broker, stopped: Stopped, delays_ms: tuple[int, ...]) -> None:
        self._position = stopped.position
        self._broker = broker
        self._delays_ms = delays_ms
        self._queue = queue_of(stopped.level)
        self._read_to = stopped.position
        self._last = stopped.position - 1  # queue offset of the last one whose delivery was found
        self._waiting: dict[_Key, list[tuple[int, int]]] = {}  # queue and log offsets of those before `_read_to`
        self._beyond: set[int] = set()

    async def delivered(self, key: _Key, log_offset: int, slices: TimeSlices) -> None:
        """Note a delivery at *log_offset*; called in the order of the log. Raises StoreError."""
        await slices.item_done()
        while not self._take(key, log_offset) and await self._read_on():
            await slices.item_done()

    def _take(self, key: _Key, log_offset: int) -> bool:
        for number, (queue_offset, waited_at) in enumerate(self._waiting.get(key, ())):
            if waited_at < log_offset:
                del self._waiting[key][number]
                if not self._waiting[key]:
                    del self._waiting[key]
                self._last = max(self._last, queue_offset)
                self._beyond.add(queue_offset)
                return True
        return False

    async def _read_on(self) -> bool:
        """Read more messages of the level; whether there were any."""
        end = min(self._broker.bounds(self._queue).max_offset, self._last + AHEAD)
        if self._read_to >= end:
            return False
        read = await read_from(self._broker, self._queue, self._read_to, _READ, self._delays_ms)
        for record, _ in read.records:
            key = _key_of(record.properties)
            if key is not None:
                self._waiting.setdefault(key, []).append((record.queue_offset, record.log_offset))
        before, self._read_to = self._read_to, read.next_offset
        return self._read_to > before

    def prune(self) -> None:
        """Forget deliveries before the first message that was not delivered."""
        self._position, self._beyond = self.resumed()

    def resumed(self) -> Resumed:
        """The result so far."""
        first = min((offset for each in self._waiting.values() for offset, _ in each), default=self._last + 1)
        position = max(self._position, min(first, self._last + 1))
        return Resumed(position, {offset for offset in self._beyond if offset > position})


def _next_deliveries(entries: Iterator[DispatchEntry]) -> tuple[list[tuple[_Key, int]], bool]:
    """Deliveries of the next *entries* of the log, and whether more may follow. For a thread."""
    batch = list(islice(entries, _SCANNED_TOGETHER))
    found: list[tuple[_Key, int]] = []
    for entry in batch:
        if b"REAL_QID" in entry.properties and entry.topic != SCHEDULE_TOPIC:
            key = _key_of(props.decode(entry.properties))
            if key is not None and key[:2] == (entry.topic, entry.queue_id):
                found.append((key, entry.log_offset))
    return found, bool(batch)


def _key_of(own: Mapping[str, str]) -> _Key | None:
    """What a message that waits has in common with its delivery; None if that cannot be told from others."""
    level, unique_key = own.get(props.DELAY, ""), own.get(props.UNIQ_KEY)
    if unique_key is None or not level.isdecimal():
        return None
    try:
        return (*real_place(own), int(level), unique_key)
    except MessageIllegal:
        return None
