"""Targets and results of offset resets. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import attrs

from gantrymq.client.admin.errors import OffsetOutside

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
        """Return the target "oldest message of each queue"."""
        return cls(edge=EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Return the target "end of each queue", after all existing messages."""
        return cls(edge=LATEST)

    @classmethod
    def at_time(cls, time_ms: int) -> Self:
        """Return the target "first message of each queue stored at *time_ms* or later"; ms since the epoch."""
        return cls(time_ms=time_ms)

    @classmethod
    def at_offset(cls, queue_offset: int) -> Self:
        """Return the target "queue offset *queue_offset* of each queue"."""
        return cls(queue_offset=queue_offset)

    def at_once(self, min_offset: int, max_offset: int) -> int | None:
        """Return the offset in a queue with these bounds, or None if the broker has to look up a time."""
        if self.edge == EARLIEST:
            return min_offset
        if self.edge == LATEST:
            return max_offset
        return self.queue_offset


@attrs.frozen
class OffsetMove:
    """Current and new offset of a group in one queue."""

    broker: str  # its name
    queue_id: int
    min_offset: int
    max_offset: int
    before: int | None  # committed; None without a commit
    after: int

    @property
    def skipped(self) -> int:
        """Number of messages that the group skips; negative for messages that it reads again."""
        return self.after - min(max(self.before or 0, self.min_offset), self.max_offset)


@attrs.frozen
class OffsetReset:
    """Result of a reset, or of a dry run."""

    topic: str
    dry_run: bool  # nothing was set
    online: int  # members that are connected
    ways: tuple[str, ...]  # methods used: "broker", "members" (within about ten seconds), "commit"; sorted
    moves: tuple[OffsetMove, ...]
    left_out: tuple[str, ...] = ()  # names of brokers that do not know the group
    attributes_left_out: tuple[str, ...] = ()  # attributes of a cloned group that its clone does not have

    @property
    def skipped(self) -> int:
        """Number of messages that the group skips."""
        return sum(max(0, move.skipped) for move in self.moves)

    @property
    def read_again(self) -> int:
        """Number of messages that the group reads again."""
        return sum(max(0, -move.skipped) for move in self.moves)


def refuse_outside(moves: Iterable[OffsetMove]) -> None:
    """Reject offsets outside of their queues.

    Raises:
        OffsetOutside: an offset is below the minimum or beyond the end of its queue; nothing was changed.
    """
    bad = [move for move in moves if not move.min_offset <= move.after <= move.max_offset]
    if bad:
        first = bad[0]
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise OffsetOutside(
            f"offset {first.after} is not in queue {first.queue_id} of {first.broker}{others}, which has "
            f"{first.min_offset} to {first.max_offset}; nothing was changed"
        )
