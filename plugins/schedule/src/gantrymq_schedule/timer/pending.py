"""What waits for its time, slot by slot, read from wheel and log.

A place is a slot's tick and a position of the log: ``1795245540:624``. Messages of one slot are due together, and are
told newest first. One that goes round again is told where it waits, with the time when it is due. One that was taken
back is told until its slot is due, and so is the marker that takes it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import InvalidParameter
from gantrymq_schedule.pending import Page, shown
from gantrymq_schedule.timer.messages import waiting_of

if TYPE_CHECKING:
    from gantrymq_schedule.timer.timers import Timers

__all__ = ["PendingTimers"]

_PLACE = re.compile(r"(\d{1,15}):(\d{1,18})\Z")
_ROUNDS: Final = 64  # of one page


class PendingTimers:
    """One broker's."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def waiting(self) -> Mapping[str, Any]:
        """How many messages wait, in all and by topic."""
        topics = {name: each.count for name, each in self._timers.topics().items() if each.count}
        return {"waiting": self._timers.figures()["waiting"], "topics": topics}

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> Page:
        """What waits from *place* on, the soonest slot first.

        Raises:
            InvalidParameter: *place* is none.
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
                    return Page(found, None)
                tick, at = slot.tick, slot.last
            due_ms = (tick + 1) * timers.precision_ms
            if until_ms is not None and due_ms > until_ms:
                return Page(found, None)
            part = await timers.back_from(tick, at, most - len(found))
            at = -1  # where the list is broken, the slot ends
            for entry, record in part:
                at = entry.previous
                waiting = waiting_of(record) if record is not None else None
                if record is None or waiting is None or topic not in (None, waiting.topic):
                    continue
                kind = "timer, takes one back" if entry.deletes else "timer"
                found.append(shown(record, waiting.slot_ms + timers.precision_ms, kind))
            if at < 0:
                tick, at = tick + 1, None
            if len(found) >= most:
                break
        return Page(found, f"{tick}:{1 << 59 if at is None else at}")


def _read_place(place: str) -> tuple[int, int | None]:
    if not place:
        return 0, None
    match = _PLACE.match(place)
    if match is None:
        raise InvalidParameter(f"place={place:.40} is no place; give the one that the page before told")
    at = int(match[2])
    return int(match[1]), None if at == 1 << 59 else at
