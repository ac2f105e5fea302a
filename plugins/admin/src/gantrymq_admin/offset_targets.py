"""Where a group is to go on: ``earliest``, ``latest``, a time, or a queue offset. No I/O.

A whole number is a queue offset; from `FIRST_TIME_MS` on it is milliseconds since the epoch, as times are everywhere
else on the command line. No queue of RocketMQ's has so many messages: its entries alone would be two terabytes.
"""

from __future__ import annotations

import attrs
import click

from gantrymq.commands.times import read_time_ms
from gantrymq.errors import InvalidParameter

__all__ = ["EARLIEST", "FIRST_TIME_MS", "LATEST", "QueueMove", "Target", "parse_target", "refuse_outside"]

EARLIEST, LATEST = "earliest", "latest"
FIRST_TIME_MS = 100_000_000_000  # in March 1973


@attrs.frozen
class Target:
    """One of: an end of the queue (*edge*), a time, a queue offset."""

    text: str  # as it was given
    edge: str = ""
    time_ms: int | None = None
    queue_offset: int | None = None

    def at_once(self, min_offset: int, max_offset: int) -> int | None:
        """The offset in a queue with these bounds; None where the broker has to look a time up."""
        if self.edge == EARLIEST:
            return min_offset
        if self.edge == LATEST:
            return max_offset
        return self.queue_offset


@attrs.frozen
class QueueMove:
    """One queue of a group and where the group goes on in it."""

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


def parse_target(text: str, now_ms: int) -> Target:
    """Read what an operator wrote behind ``--to``.

    Raises:
        click.BadParameter: it is none of the four, below 0, or a time that is still to come.
    """
    word = text.strip()
    if word.lower() in (EARLIEST, LATEST):
        return Target(text, edge=word.lower())
    if word.isascii() and word.isdecimal() and int(word) < FIRST_TIME_MS:
        return Target(text, queue_offset=int(word))
    try:
        time_ms = read_time_ms(word if word.isascii() else "")
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is none of earliest, latest, a queue offset, milliseconds, and a time such as "
            "'2026-11-21 10:00:00'"
        ) from None
    if time_ms > now_ms:
        raise click.BadParameter(f"{text!r} is still to come; latest passes over all there is now")
    return Target(text, time_ms=time_ms)


def refuse_outside(moves: list[QueueMove]) -> None:
    """Refuse an offset that a queue does not have.

    Raises:
        InvalidParameter: it is below the minimum or behind the end of one of the queues; none was changed.
    """
    bad = [move for move in moves if not move.min_offset <= move.after <= move.max_offset]
    if bad:
        first = bad[0]
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise InvalidParameter(
            f"offset {first.after} is not in queue {first.queue_id} of {first.broker}{others}, which has "
            f"{first.min_offset} to {first.max_offset}; nothing was changed. Pick a queue with -q, or use a time"
        )
