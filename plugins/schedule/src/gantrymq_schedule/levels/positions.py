"""Positions of the delay levels: decides which level to deliver next, and when; the file. No I/O; time is an argument.

Each level is a queue in which messages are due in the order in which they were stored. Per level it keeps the queue
offset of the next message, the end of the queue, and the due time of the next message (None: not read yet):

    add_level --> [position, end)  -- arrived: the end moves
                    |  ready: position < end, and the next message is due, or has to be read
                    v
                  the reader delivers due messages and calls `advance`

No other message needs memory, however many wait. Time is wall time: a message due further ahead than its level's delay
was stored before the clock was set back. By more than `SMALL_STEP_MS`, it counts as due, so that no message waits for a
clock that was wrong; by less, it waits, because time servers set clocks back by so much, and a delay of hours must not
end early for that. A message that is not due is checked again after at most one second, so that a clock set forward is
noticed.

They are saved in delayOffset.json: ``offsetTable`` {level -> queue offset of the next message to deliver}.

    4.9.7   offsetTable alone
    5.3.3   + dataVersion

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (correctDeliverTimestamp, encode, decode),
remoting/.../protocol/DelayOffsetSerializeWrapper.java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from gantrymq.plugin.config_files import as_number, data_version, in_order, pretty, table, unknown
from gantrymq.plugin.model import DataVersion

LOOK_AGAIN_MS: Final = 1000
SMALL_STEP_MS: Final = 10_000
APART_MS: Final = 50  # messages of different levels due within this time of each other may be delivered in any order
DELAY_OFFSETS = "delayOffset.json"
_MEMBERS = frozenset(("dataVersion", "offsetTable"))


def due_at(time_ms: int, now_ms: int, delay_ms: int | None) -> int:
    """Return when a message with the time *time_ms* in its queue entry is due.

    Args:
        now_ms: taken after the entry was read.
        delay_ms: delay of its level; None for a level that is not configured any more.
    """
    return now_ms if delay_ms is not None and time_ms > now_ms + delay_ms + SMALL_STEP_MS else time_ms


@attrs.define
class _Level:
    delay_ms: int | None
    position: int
    end: int
    time_ms: int | None = None  # from the queue entry of the next message; None: not read yet
    order_ms: int = 0  # sort key among due levels while the next message is not read

    def due_at(self, now_ms: int) -> int:
        return min(self.order_ms, now_ms) if self.time_ms is None else due_at(self.time_ms, now_ms, self.delay_ms)


class LevelPositions:
    """Positions of all levels of one broker."""

    def __init__(self) -> None:
        """Create it without levels."""
        self._levels: dict[int, _Level] = {}

    def add_level(self, level: int, delay_ms: int | None, position: int, end: int) -> None:
        """Add *level* at *position* of a queue that ends at *end*; *delay_ms* is None if it is not configured."""
        self._levels[level] = _Level(delay_ms, position, end)

    def arrived(self, level: int, end: int) -> bool:
        """Set the end of the queue of *level* to *end*. Return whether the level was empty before."""
        known = self._levels[level]
        was_empty = known.position >= known.end
        known.end = max(known.end, end)
        return was_empty

    def advance(self, level: int, position: int, time_ms: int | None = None, before_ms: int = 0) -> None:
        """Move *level* to *position*: everything before it is finished.

        Args:
            time_ms: from the queue entry at *position*; None if it was not read.
            before_ms: from the queue entry before it.
        """
        known = self._levels[level]
        known.position, known.time_ms, known.order_ms = position, time_ms, before_ms
        known.end = max(known.end, position)

    def ended(self, level: int, position: int) -> None:
        """Set position and end of *level* to *position*: its topic was deleted."""
        known = self._levels[level]
        known.position = known.end = position

    def position(self, level: int) -> int:
        """Return the queue offset of the next message."""
        return self._levels[level].position

    def delay_ms(self, level: int) -> int | None:
        """Return the delay of *level*."""
        return self._levels[level].delay_ms

    def levels(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield for each level its number, position, the queue's end, and the time of the next message if known."""
        for level, known in self._levels.items():
            yield level, known.position, known.end, known.time_ms

    def ready(self, now_ms: int) -> tuple[int, int] | None:
        """Return the level to deliver now, and up to which due time; None if no level has a due or unread message.

        Of several levels, the one with the earliest due time is chosen; it runs at most `APART_MS` ahead of the next.
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
        """Return how long to wait before the next `ready`; None means until a message arrives."""
        times = [known.due_at(now_ms) for known in self._levels.values() if known.position < known.end]
        return max(0, min(min(times) - now_ms, LOOK_AGAIN_MS)) if times else None


@attrs.define
class DelayOffsetsFile:
    """Contents of the file."""

    offsets: dict[int, int] = attrs.field(factory=dict)  # by level
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # unknown members, written back unchanged

    @classmethod
    def from_json(cls, members: Mapping[Any, Any]) -> DelayOffsetsFile:
        """Parse the result of `manager_file.load`.

        Raises:
            FormatError: a member has the wrong type; the message names it.
        """
        where = f"{DELAY_OFFSETS}: offsetTable"
        offsets = {
            as_number(level, where): as_number(offset, f"{where}, level {level}")
            for level, offset in table(members, "offsetTable", DELAY_OFFSETS).items()
        }
        return cls(offsets, data_version(members, DELAY_OFFSETS), unknown(members, _MEMBERS))

    def to_text(self) -> str:
        """Return the text of the file in the layout of 5.3.3."""
        offsets = {level: self.offsets[level] for level in sorted(self.offsets)}
        return pretty(in_order({"dataVersion": self.version.to_json(), "offsetTable": offsets}, self.kept))
