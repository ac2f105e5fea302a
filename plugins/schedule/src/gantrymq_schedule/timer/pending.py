"""Listing of waiting timed messages, slot by slot, read from wheel and timer log.

A place is a slot's tick and a position of the timer log: ``1795245540:624``. Messages of one slot are due together and
are listed newest first. A message that will be rolled is listed at its current slot, with its real due time. A recalled
message is listed until its slot is due, and so is the recall marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import InvalidParameter
from gantrymq_schedule.pending import PendingPage, describe_pending
from gantrymq_schedule.timer.messages import timed_message_of

if TYPE_CHECKING:
    from gantrymq_schedule.timer.timers import Timers


_PLACE = re.compile(r"(\d{1,15}):(\d{1,18})\Z")
_ROUNDS: Final = 64  # reads per page


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
        tick, at = _read_place(place)
        timers = self._timers
        if tick < timers.read_tick:
            tick, at = timers.read_tick, None
        found: list[dict[str, Any]] = []
        for _ in range(_ROUNDS):
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


def _read_place(place: str) -> tuple[int, int | None]:
    if not place:
        return 0, None
    match = _PLACE.match(place)
    if match is None:
        raise InvalidParameter(f"place={place:.40} is not a valid place; pass the one returned with the previous page")
    at = int(match[2])
    return int(match[1]), None if at == 1 << 59 else at
