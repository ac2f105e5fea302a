"""Waiting messages of the delay levels: counts from queue offsets, and pages merged over the levels by due time.

A place lists the queue offset at which each level continues: ``1:17,3:200``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gantrymq.errors import InvalidParameter
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import BrokerStorage, GetLimit
from gantrymq.plugin.world import TimeSlices
from gantrymq_schedule.levels.due import read_from
from gantrymq_schedule.levels.positions import LevelPositions
from gantrymq_schedule.levels.table import queue_of
from gantrymq_schedule.pending import PendingPage, describe_pending

_PLACE = re.compile(r"(\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*)?\Z")
_READS: Final = 64  # per level and page
_ONE_READ: Final = GetLimit(32, 256 * 1024)


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
        if _PLACE.match(place) is None:
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
        for _ in range(_READS):
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
