"""Which level is to be looked at, and when the next one is: positions and times in, decisions out.

Every level is a queue in which messages are due in the order they came. Known of each are the queue offset of the next
message, the end of the queue, and when the next message is due (None: nobody has looked at it):

    place ------> [position, end)  -- arrived: the end moves
                    |  ready: position < end, and the next message is due, or is to be looked at
                    v
                  a reader takes what is due and says `moved`

Nothing is kept of any other message, however many wait. Time is wall time: a message whose time lies further ahead than
its level's delay was stored before the clock was set back, and counts as due. One that is not due is looked at again
after a second at the latest, so a clock that is set ahead is noticed.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (correctDeliverTimestamp).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

__all__ = ["APART_MS", "LOOK_AGAIN_MS", "LevelProgress", "due_at"]

LOOK_AGAIN_MS: Final = 1000
APART_MS: Final = 50  # messages of several levels may change places that are due so close to each other


def due_at(time_ms: int, now_ms: int, delay_ms: int | None) -> int:
    """When a message that its queue entry gives *time_ms* is due.

    Args:
        now_ms: taken after the entry was read.
        delay_ms: of its level; None for one that the settings lack.
    """
    return now_ms if delay_ms is not None and time_ms > now_ms + delay_ms else time_ms


@attrs.define
class _Level:
    delay_ms: int | None
    position: int
    end: int
    time_ms: int | None = None  # in the queue entry of the next message
    order_ms: int = 0  # of one that nobody has looked at: among those that are due it stands here

    def due_at(self, now_ms: int) -> int:
        return min(self.order_ms, now_ms) if self.time_ms is None else due_at(self.time_ms, now_ms, self.delay_ms)


class LevelProgress:
    """All levels of one broker."""

    def __init__(self) -> None:
        """No levels yet."""
        self._levels: dict[int, _Level] = {}

    def place(self, level: int, delay_ms: int | None, position: int, end: int) -> None:
        """Begin *level* at *position* of a queue that ends at *end*; *delay_ms*: None when it has none any more."""
        self._levels[level] = _Level(delay_ms, position, end)

    def arrived(self, level: int, end: int) -> bool:
        """The queue of *level* ends at *end* now; whether there was nothing to wait for before."""
        known = self._levels[level]
        was_empty = known.position >= known.end
        known.end = max(known.end, end)
        return was_empty

    def moved(self, level: int, position: int, time_ms: int | None = None, before_ms: int = 0) -> None:
        """What stands before *position* is done with.

        Args:
            time_ms: in the queue entry of what stands there; None: nobody has looked.
            before_ms: the same of what stood before it.
        """
        known = self._levels[level]
        known.position, known.time_ms, known.order_ms = position, time_ms, before_ms
        known.end = max(known.end, position)

    def ended(self, level: int, position: int) -> None:
        """The queue of *level* ends at *position*, whatever was heard before: its topic was deleted."""
        known = self._levels[level]
        known.position = known.end = position

    def position(self, level: int) -> int:
        """Queue offset of the next message."""
        return self._levels[level].position

    def delay_ms(self, level: int) -> int | None:
        """How long messages of *level* wait."""
        return self._levels[level].delay_ms

    def levels(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Of each level: its number, position, the queue's end, and the time of the next message if it is known."""
        for level, known in self._levels.items():
            yield level, known.position, known.end, known.time_ms

    def ready(self, now_ms: int) -> tuple[int, int] | None:
        """The level whose next message is due, or may be, and up to which time its messages may go.

        Of several it is the one that has waited longest, and it goes no further than `APART_MS` ahead of the next.
        """
        first, first_due, second_due = None, now_ms + 1, now_ms
        for level, known in self._levels.items():
            if known.position >= known.end:
                continue
            due = known.due_at(now_ms)
            if due < first_due:
                second_due = now_ms if first is None else first_due
                first, first_due = level, due
            else:
                second_due = min(second_due, due)
        return None if first is None else (first, min(now_ms, second_due + APART_MS))

    def wait_ms(self, now_ms: int) -> int | None:
        """How long there is nothing to do; None: until something arrives."""
        times = [known.due_at(now_ms) for known in self._levels.values() if known.position < known.end]
        return max(0, min(min(times) - now_ms, LOOK_AGAIN_MS)) if times else None
