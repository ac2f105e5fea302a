"""The newest half messages, kept until their producer decides, so that a decision need not read them from the log.

Producers usually decide within milliseconds. Kept are messages that were prepared together, whose producer's first
decision is always accepted: without a number of checks, an immunity time or a delay of their own. A message that is not
kept is read from the log, so that dropping one costs time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.plugin.interfaces import PutResult, StoreMessage
from gantrymq_transaction.half_text import Target
from gantrymq_transaction.messages import committed_message

_new = tuple.__new__  # takes a third of the time of calling the named tuple
_MOST: Final = 8192
_MOST_BYTES: Final = 16 * 1024 * 1024


class RecentHalf(NamedTuple):
    """A half message in the log."""

    queue_offset: int
    size: int  # of its record
    message: StoreMessage
    target: Target

    def committed(self, log_offset: int) -> StoreMessage:
        """Return the committed message of the half message at *log_offset*; see `messages.committed`."""
        half, (topic, queue_id, _) = self.message, self.target
        return committed_message(half, topic, queue_id, half.body, half.properties, half.tags_code, log_offset)


class RecentHalves:
    """Half messages by log offset, oldest first."""

    def __init__(self) -> None:
        self._halves: dict[int, RecentHalf] = {}
        self._bytes = 0

    def add(
        self, messages: Sequence[StoreMessage], targets: Sequence[Target | None], results: Sequence[PutResult]
    ) -> None:
        """Keep *messages* that have a target; *results*: where they are stored."""
        halves, total = self._halves, self._bytes
        for message, target, result in zip(messages, targets, results, strict=True):
            if target is not None:
                _, queue_offset, log_offset, size, _, _ = result
                halves[log_offset] = _new(RecentHalf, (queue_offset, size, message, target))
                total += size
        self._bytes = total
        while self._bytes > _MOST_BYTES or len(halves) > _MOST:
            self.pop(next(iter(halves)))

    def pop(self, log_offset: int) -> RecentHalf | None:
        """Return the half message at *log_offset* and keep it no longer; None if it is not kept."""
        half = self._halves.pop(log_offset, None)
        if half is not None:
            self._bytes -= half[1]
        return half
