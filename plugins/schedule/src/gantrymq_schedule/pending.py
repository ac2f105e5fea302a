"""Request 65001: list pending delayed messages page by page; the counts are answered without reading a message.

    ext   source   levels (default) or timers
          place    position of the page, as returned with the previous one; empty: start at the earliest message
          topic    only messages for this topic
          untilMs  only messages that are due at this time or earlier
          most     page size, 1 to 256
    body  {"sources": {name: {"waiting", ...}}, "messages": [...], "place": null on the last page}

A page reads a bounded number of messages: with a topic filter it may be empty without being the last.

Levels are counted by their queue offsets, and their pages are merged over the queues. The place is a level and a queue
offset for each level: ``3:120,5:7``. Messages are ordered by due time. In a queue, a message counts as due at the same
time as the latest of those before it, because it is not delivered before them.

Timed messages are read from wheel and timer log, slot by slot. The place is a slot's tick and a position of the timer
log: ``1795245540:624``. Messages of one slot are due together and are listed newest first. A message that will be
rolled is listed at its current slot, with its real due time. A recalled message is listed until its slot is due, and so
is the recall marker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import BrokerStorage, GetLimit
from gantrymq.plugin.loose_json import whole_number
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, response_to, serves
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.levels.due import read_from
from gantrymq_schedule.levels.positions import LevelPositions
from gantrymq_schedule.levels.table import queue_of
from gantrymq_schedule.timer.messages import timed_message_of

if TYPE_CHECKING:
    from gantrymq_schedule.timer.timers import Timers

PENDING: Final = 65001
_MOST: Final = 256
_LEVELS_PLACE = re.compile(r"(\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*)?\Z")
_LEVEL_READS: Final = 64  # per level and page
_ONE_READ: Final = GetLimit(32, 256 * 1024)
_TIMERS_PLACE = re.compile(r"(\d{1,15}):(\d{1,18})\Z")
_TIMER_READS: Final = 64  # per page


class PendingPage(NamedTuple):
    """One page of waiting messages, earliest first."""

    messages: Sequence[Mapping[str, Any]]  # see `describe_pending`
    place: str | None  # position of the next page; None after the last


class PendingSource(Protocol):
    """A source of waiting messages: one kind of delay."""

    def waiting(self) -> Mapping[str, Any]:
        """Return the number of waiting messages (``waiting``) and details, from memory."""

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> PendingPage:
        """Return the page that starts at *place*. Raises InvalidParameter if *place* is not valid for this source."""


def describe_pending(record: RecordView, due_ms: int, kind: str) -> dict[str, Any]:
    """Describe a waiting message as JSON members."""
    own = record.properties
    return {
        "due_ms": due_ms,
        "kind": kind,
        "topic": own.get(props.REAL_TOPIC),
        "queue": own.get(props.REAL_QUEUE_ID),
        "unique_id": own.get(props.UNIQ_KEY),
        "tags": own.get(props.TAGS),
        "keys": own.get(props.KEYS),
        "born_ms": record.born_timestamp,
        "stored_ms": record.store_timestamp,
        "size": record.total_size,
        "log_offset": record.log_offset,
    }


class PendingRequests:
    """Handler of request 65001."""

    def __init__(self, sources: Callable[[], Mapping[str, PendingSource]]) -> None:
        """*sources* returns the running sources by name; it is empty while the service is not running."""
        self._sources = sources

    @serves(PENDING, action=Action.GET)
    async def serve(self, request: Command, connection: Connection) -> Command:
        """Answer request 65001.

        Raises:
            InvalidParameter: a field is invalid; the message names it.
            ServiceNotAvailable: the service is not running.
        """
        ext, sources = request.ext or {}, self._sources()
        if not sources:
            raise ServiceNotAvailable("the service schedule does not run")
        name = ext.get("source", "levels")
        if name not in sources:
            raise InvalidParameter(f"source={name} is not a source of delays; there is {', '.join(sources)}")
        until = ext.get("untilMs")
        until_ms = None if until is None else _number("untilMs", until, 0, 2**63 - 1)
        most = _number("most", ext.get("most", "32"), 1, _MOST)
        page = await sources[name].page(ext.get("place", ""), ext.get("topic") or None, until_ms, most)
        answer = {
            "sources": {each: dict(source.waiting()) for each, source in sources.items()},
            "messages": list(page.messages),
            "place": page.place,
        }
        return response_to(request, 0, None, None, json.dumps(answer).encode())


def _number(name: str, text: str, least: int, most: int) -> int:
    number = whole_number(text)
    if number is None:
        raise InvalidParameter(f"{name}={text} is not a whole number")
    if not least <= number <= most:
        raise InvalidParameter(f"{name}={text} is not between {least} and {most}")
    return number


class _PendingRecord(NamedTuple):
    order_ms: int  # maximum due time of the messages up to this one in its queue
    level: int
    due_ms: int
    record: RecordView


class _LevelQuery(NamedTuple):
    level: int
    position: int
    end: int
    topic: str | None
    until_ms: int | None
    most: int


class PendingLevels:
    """Waiting messages of one broker's levels."""

    def __init__(self, broker: BrokerStorage, positions: LevelPositions, delays_ms: Sequence[int]) -> None:
        self._broker = broker
        self._positions = positions
        self._delays_ms = tuple(delays_ms)

    def waiting(self) -> Mapping[str, Any]:
        """Return how many messages wait, in total and by level."""
        levels = [
            {
                "level": level,
                "delay_ms": self._positions.delay_ms(level),
                "waiting": end - position,
                "next_due_ms": time_ms,
            }
            for level, position, end, time_ms in self._positions.levels()
            if position < end
        ]
        return {"waiting": sum(each["waiting"] or 0 for each in levels), "levels": levels}

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> PendingPage:
        """Return the waiting messages from *place* on, earliest first.

        Raises:
            InvalidParameter: *place* is malformed.
        """
        if _LEVELS_PLACE.match(place) is None:
            raise InvalidParameter(
                f"place={place:.40} is not a valid place; pass the one returned with the previous page"
            )
        pairs = (each.split(":") for each in place.split(",") if each)
        places = {int(level): int(at) for level, at in pairs}
        slices, found = TimeSlices(self._broker.world.clock, 1), list[_PendingRecord]()
        ends: dict[int, int] = {}  # queue offset at which each level continues
        known: list[int] = []  # for each level with more messages, the time up to which it was read completely
        for level, position, end, _ in list(self._positions.levels()):
            wanted = _LevelQuery(level, max(position, places.get(level, 0)), end, topic, until_ms, most)
            of_level, ends[level], known_ms = await self._read(wanted, slices)
            found += of_level
            if ends[level] < end:
                known.append(known_ms)
        found.sort(key=lambda each: (each.order_ms, each.level))
        chosen = [each for each in found[:most] if not known or each.order_ms <= min(known)]
        for each in found[len(chosen) :]:
            ends[each.level] = min(ends[each.level], each.record.queue_offset)
        more = bool(known) or len(chosen) < len(found)
        return PendingPage(
            [describe_pending(each.record, each.due_ms, f"level {each.level}") for each in chosen],
            ",".join(f"{level}:{at}" for level, at in ends.items()) if more else None,
        )

    async def _read(self, wanted: _LevelQuery, slices: TimeSlices) -> tuple[list[_PendingRecord], int, int]:
        """Return the *wanted* messages of one level, where it continues, and the time up to which all were read."""
        level, at, end, topic, until_ms, most = wanted
        found: list[_PendingRecord] = []
        order_ms = 0
        for _ in range(_LEVEL_READS):
            if at >= end or len(found) >= most:
                break
            read = await read_from(self._broker, queue_of(level), at, _ONE_READ, self._delays_ms)
            for record, due_ms in read.records:
                order_ms = max(order_ms, due_ms)
                if until_ms is not None and due_ms > until_ms:
                    return found, end, order_ms
                if topic is None or record.properties.get(props.REAL_TOPIC) == topic:
                    found.append(_PendingRecord(order_ms, level, due_ms, record))
            if read.next_offset <= at:
                return found, end, order_ms
            at = read.next_offset
            await slices.item_done()
        return found, at, order_ms


class PendingTimers:
    """Waiting timed messages of one broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def waiting(self) -> Mapping[str, Any]:
        """Return how many messages wait, in total and by topic."""
        topics = {name: each.count for name, each in self._timers.topics().items() if each.count}
        return {"waiting": self._timers.stats()["waiting"], "topics": topics}

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> PendingPage:
        """Return the waiting messages from *place* on, earliest slot first.

        Raises:
            InvalidParameter: *place* is malformed.
        """
        tick, at = _read_timers_place(place)
        timers = self._timers
        if tick < timers.read_tick:
            tick, at = timers.read_tick, None
        found: list[dict[str, Any]] = []
        for _ in range(_TIMER_READS):
            if at is None:
                slot = await timers.next_slot(tick)
                if slot is None:
                    return PendingPage(found, None)
                tick, at = slot.tick, slot.last
            due_ms = (tick + 1) * timers.precision_ms
            if until_ms is not None and due_ms > until_ms:
                return PendingPage(found, None)
            part = await timers.back_from(tick, at, most - len(found))
            at = -1  # a broken list ends the slot
            for entry, record in part:
                at = entry.previous
                waiting = timed_message_of(record) if record is not None else None
                if record is None or waiting is None or topic not in (None, waiting.topic):
                    continue
                kind = "timer, takes one back" if entry.deletes else "timer"
                found.append(describe_pending(record, waiting.slot_ms + timers.precision_ms, kind))
            if at < 0:
                tick, at = tick + 1, None
            if len(found) >= most:
                break
        return PendingPage(found, f"{tick}:{1 << 59 if at is None else at}")


def _read_timers_place(place: str) -> tuple[int, int | None]:
    if not place:
        return 0, None
    match = _TIMERS_PLACE.match(place)
    if match is None:
        raise InvalidParameter(f"place={place:.40} is not a valid place; pass the one returned with the previous page")
    at = int(match[2])
    return int(match[1]), None if at == 1 << 59 else at
