"""Where a group is to go on in its queues, and what that means for it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import attrs

from gantrymq.client.admin.errors import OffsetOutside

__all__ = ["EARLIEST", "LATEST", "OffsetMove", "OffsetReset", "OffsetTarget", "refuse_outside"]

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@attrs.frozen
class OffsetTarget:
    """One of: an end of each queue (*edge*), a store time, a queue offset."""

    edge: str = ""  # EARLIEST or LATEST
    time_ms: int | None = None
    queue_offset: int | None = None

    @classmethod
    def earliest(cls) -> Self:
        """The oldest message that each queue still has."""
        return cls(edge=EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Behind everything there is now."""
        return cls(edge=LATEST)

    @classmethod
    def at_time(cls, time_ms: int) -> Self:
        """The first message of each queue that was stored at *time_ms* or later, milliseconds since the epoch."""
        return cls(time_ms=time_ms)

    @classmethod
    def at_offset(cls, queue_offset: int) -> Self:
        """That offset of each queue."""
        return cls(queue_offset=queue_offset)

    def at_once(self, min_offset: int, max_offset: int) -> int | None:
        """The offset in a queue with these bounds; None where the broker has to look a time up."""
        if self.edge == EARLIEST:
            return min_offset
        if self.edge == LATEST:
            return max_offset
        return self.queue_offset


@attrs.frozen
class OffsetMove:
    """One queue of a group and where the group goes on in it; queue offsets."""

    broker: str  # its name
    queue_id: int
    min_offset: int
    max_offset: int
    before: int | None  # committed; None without a commit
    after: int

    @property
    def skipped(self) -> int:
        """Messages that the group will not read; below 0: that it reads again."""
        return self.after - min(max(self.before or 0, self.min_offset), self.max_offset)


@attrs.frozen
class OffsetReset:
    """What became of a reset, or would."""

    topic: str
    dry_run: bool  # nothing was set
    online: int  # members that are connected
    ways: tuple[str, ...]  # how: "broker", "members" (within some ten seconds), "commit"; sorted
    moves: tuple[OffsetMove, ...]
    left_out: tuple[str, ...] = ()  # names of brokers that do not know the group
    attributes_left_out: tuple[str, ...] = ()  # of a group that was cloned, which its clone does not have

    @property
    def skipped(self) -> int:
        """Messages that the group will not read."""
        return sum(max(0, move.skipped) for move in self.moves)

    @property
    def read_again(self) -> int:
        """Messages that the group reads once more."""
        return sum(max(0, -move.skipped) for move in self.moves)


def refuse_outside(moves: Iterable[OffsetMove]) -> None:
    """Refuse an offset that a queue does not have.

    Raises:
        OffsetOutside: it is below the minimum or behind the end of one of the queues; none was changed.
    """
    bad = [move for move in moves if not move.min_offset <= move.after <= move.max_offset]
    if bad:
        first = bad[0]
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise OffsetOutside(
            f"offset {first.after} is not in queue {first.queue_id} of {first.broker}{others}, which has "
            f"{first.min_offset} to {first.max_offset}; nothing was changed"
        )
