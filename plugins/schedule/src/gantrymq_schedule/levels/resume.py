"""Finding which messages of the delay levels were delivered before a stop that did not save the offsets.

After a kill delayOffset.json is some seconds old. A Java broker delivers the messages of these seconds again. Here the
commit log is searched: a delivered message has the REAL_TOPIC, REAL_QID and UNIQ_KEY of the waiting message, and a
higher log offset. The search starts at the first log offset where a delivery of the levels' next messages can be. The
index by key is not used, because it may lag behind the log or be disabled.

Messages of a level are delivered in order, except that up to `MOST_MESSAGES` messages after one that the store refused
may be delivered before it. A message without a unique key or a target cannot be recognized; it counts as delivered if a
later one was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import BoundaryType, BrokerStorage, DispatchEntry, GetLimit
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.levels.due import DueMessages, read_due, read_from, real_target
from gantrymq_schedule.levels.table import queue_of

log = logging.getLogger(__name__)

AHEAD: Final = 4096  # messages of a level to read beyond the last one that was found delivered
_READ: Final = GetLimit(64, 512 * 1024)
_FIRST: Final = GetLimit(1)
_SCANNED_TOGETHER: Final = 10_000  # log entries per step in the worker thread
_DELIVERIES_TOGETHER: Final = 64  # deliveries before the event loop is yielded

_Key = tuple[str, int, int, str]  # real topic, queue id, level, unique key


class SavedLevel(NamedTuple):
    """Saved position of one level."""

    level: int
    position: int  # queue offset of the next message
    delay_ms: int | None  # None for a level that is not configured any more


class ResumePoint(NamedTuple):
    """The point up to which one level was delivered."""

    position: int  # queue offset of the first message that was not delivered
    beyond: set[int]  # queue offsets of delivered messages after it


async def find_delivered(
    broker: BrokerStorage, levels: Iterable[SavedLevel], delays_ms: tuple[int, ...], stopping: Callable[[], bool]
) -> dict[int, ResumePoint]:
    """Find how far each level with due messages was delivered.

    Args:
        broker: must not deliver messages during the search.
        levels: saved positions of the levels with messages after them.
        delays_ms: delays of all levels, the first is level 1.
        stopping: ends the search early if it returns True; the result so far is returned.

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
        log.info("searching %d bytes of the log for messages that the delay levels delivered", end - begin)
    slices, more = TimeSlices(broker.world.clock, _DELIVERIES_TOGETHER), bool(found)
    while more and not stopping():
        deliveries, more = await broker.world.workers.run(_next_deliveries, entries)
        for key, log_offset in deliveries:
            if (level := found.get(key[2])) is not None:
                await level.delivered(key, log_offset, slices)
        for each in found.values():
            each.prune()
    return {level: each.resumed() for level, each in found.items()}


async def _first_delivery(broker: BrokerStorage, stopped: SavedLevel, delays_ms: tuple[int, ...]) -> int | None:
    """Return a log offset before which no message from the level's position on was delivered; None if none was at all.

    A delivered message was stored in its queue after it was due, so the queue is searched by that time. Several
    messages are tried, because the first may be one that could never be stored.
    """
    clock = broker.world.clock
    due = await _due(broker, stopped, delays_ms)
    targets: dict[Queue, int] = {}
    for record, time_ms in due.records:
        if time_ms > clock.now_ms():  # the clock was set back since
            return record.log_offset
        try:
            target = Queue(*real_target(record.properties))
        except MessageIllegal:
            continue
        targets.setdefault(target, time_ms)
    begins: list[int] = []
    for target, time_ms in targets.items():
        at = await broker.messages.offset_at(target, time_ms, BoundaryType.LOWER)
        if at < broker.store.bounds(target).max_offset:
            read = await read_from(broker, target, at, _FIRST, delays_ms)
            begins.append(read.records[0][0].log_offset if read.records else 0)
    return max(min(begins), due.records[0][0].log_offset) if begins else None


async def _due(broker: BrokerStorage, stopped: SavedLevel, delays_ms: tuple[int, ...]) -> DueMessages:
    now_ms = broker.world.clock.now_ms()
    return await read_due(broker, queue_of(stopped.level), stopped.position, now_ms, stopped.delay_ms, delays_ms)


class _Level:
    """Messages of one level that are not found delivered yet."""

    def __init__(self, broker: BrokerStorage, stopped: SavedLevel, delays_ms: tuple[int, ...]) -> None:
        self._position = stopped.position
        self._broker = broker
        self._delays_ms = delays_ms
        self._queue = queue_of(stopped.level)
        self._read_to = stopped.position
        self._last = stopped.position - 1  # queue offset of the last message that was found delivered
        self._waiting: dict[_Key, list[tuple[int, int]]] = {}  # queue and log offsets of messages before `_read_to`
        self._beyond: set[int] = set()

    async def delivered(self, key: _Key, log_offset: int, slices: TimeSlices) -> None:
        """Record a delivery at *log_offset*; called in the order of the log. Raises StoreError."""
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
        """Read more messages of the level. Return whether there were any."""
        end = min(self._broker.store.bounds(self._queue).max_offset, self._last + AHEAD)
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
        """Discard deliveries before the first message that was not delivered."""
        self._position, self._beyond = self.resumed()

    def resumed(self) -> ResumePoint:
        """Return the result so far."""
        first = min((offset for each in self._waiting.values() for offset, _ in each), default=self._last + 1)
        position = max(self._position, min(first, self._last + 1))
        return ResumePoint(position, {offset for offset in self._beyond if offset > position})


def _next_deliveries(entries: Iterator[DispatchEntry]) -> tuple[list[tuple[_Key, int]], bool]:
    """Return the deliveries among the next *entries* of the log, and whether more may follow. Runs in a worker."""
    batch = list(islice(entries, _SCANNED_TOGETHER))
    found: list[tuple[_Key, int]] = []
    for entry in batch:
        if b"REAL_QID" in entry.properties and entry.topic != SCHEDULE_TOPIC:
            key = _key_of(props.decode(entry.properties))
            if key is not None and key[:2] == (entry.topic, entry.queue_id):
                found.append((key, entry.log_offset))
    return found, bool(batch)


def _key_of(own: Mapping[str, str]) -> _Key | None:
    """Return the key that a waiting message shares with its delivery; None if it has no distinctive key."""
    level, unique_key = own.get(props.DELAY, ""), own.get(props.UNIQ_KEY)
    if unique_key is None or not level.isdecimal():
        return None
    try:
        return (*real_target(own), int(level), unique_key)
    except MessageIllegal:
        return None
