"""A subscription with an equality: search bytes for each message, and block filters for ranges of a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.formats.record import RecordView
from gantrymq.interfaces import MessageFilter
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92.blocks.counters import BlockCounters
from gantrymq_filter_sql92.blocks.keys import key_of, needle_of
from gantrymq_filter_sql92.equalities import Equality

__all__ = ["EVERYTHING", "CandidateSource", "SkippingFilter"]

MOST_NEEDLES = 8
EVERYTHING = 1 << 62


def _no_answer(runs: Sequence[tuple[bytes, int]]) -> bytes | None:
    return None


class CandidateSource(Protocol):
    """Finds the blocks that may contain a match."""

    def candidates(self, asker: SkippingFilter, queue: Queue, queue_offset: int) -> tuple[int, int]:
        """As `PropertiesFilter.candidates`, for an expression that requires one of ``asker.keys``."""


class SkippingFilter:
    """A compiled expression with the optional methods of `gantrymq.interfaces.PropertiesFilter`."""

    accepts_all = False
    needs_message = True

    def __init__(
        self,
        inner: MessageFilter,
        matches: Callable[[bytes], bool],
        matching: Callable[[Sequence[bytes]], Sequence[int]],
        pairs: frozenset[Equality] | None,
        blocks: CandidateSource,
        counts: BlockCounters,
    ) -> None:
        """Args:
        matches: return whether *inner* matches a message, by its properties.
        matching: see `gantrymq.interfaces.SliceFilter.match_slice`.
        pairs: see `required_equalities`.
        """
        self._inner = inner
        self._matches = matches
        self._matching = matching
        self._blocks = blocks
        self._counts = counts
        self.match_entry = inner.match_entry
        self.match_units = getattr(inner, "match_units", _no_answer)
        self.keys = tuple(sorted(map(key_of, pairs))) if pairs is not None else None  # None: no equality is required
        self.names = frozenset(pair.name for pair in pairs or ())
        needles = tuple(sorted({needle_of(pair) for pair in pairs or ()}))
        self.needles = needles if len(needles) <= MOST_NEEDLES else ()
        self._reading: Queue | None = None
        self._hits: dict[Queue, tuple[int, int]] = {}  # the block being read, and the matches in it

    def match_properties(self, properties: bytes) -> bool:
        """Return whether the expression is true."""
        self._counts.evaluated += 1
        if not self._matches(properties):
            return False
        if self._reading in self._hits:
            number, hits = self._hits[self._reading]
            self._hits[self._reading] = number, hits + 1
        return True

    def match_slice(self, properties: Sequence[bytes]) -> Sequence[int]:
        """See `gantrymq.interfaces.SliceFilter.match_slice`."""
        self._counts.evaluated += len(properties)
        found = self._matching(properties)
        if found and self._reading in self._hits:
            number, hits = self._hits[self._reading]
            self._hits[self._reading] = number, hits + len(found)
        return found

    def match_message(self, record: RecordView) -> bool:
        """Return whether the expression is true. Called for messages read by a thread, whose block is not known."""
        self._hits.clear()
        return self._inner.match_message(record)

    def candidates(self, queue: Queue, queue_offset: int) -> tuple[int, int]:
        """Return the range of the next entries that may match."""
        if self.keys is None:
            return queue_offset, EVERYTHING
        return self._blocks.candidates(self, queue, queue_offset)

    def reads(self, queue: Queue, number: int, *, from_start: bool, known: bool) -> bool:
        """Set the block being read. Return True if the previous one was read to its end without a match.

        Args:
            queue: its queue.
            number: of the block.
            from_start: whether reading starts at its first entry.
            known: whether its filter was positive.
        """
        before, hits = self._hits.get(queue, (number, 1))
        if before != number or from_start:
            self._hits.pop(queue, None)
            if known and from_start:
                self._hits[queue] = number, 0
        self._reading = queue
        return before < number and not hits
