"""Finds the records of a queue that may contain a needle by searching the log block by block.

    log      | a b c a b c a b c a b c ... | a b c ...
    range    |-------- BLOCK_BYTES --------|            the positions of needles in it are cached, not its bytes
                     ^                ^
    queue b  offsets of its records: the record that contains a position is found by bisection

A range is read and searched once for all queues of a topic, whose consumers use the same needles. Their records are
adjacent in it, and the cached positions outlive the cached bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading.log_blocks import BLOCK_BYTES, LogBlocks

_MOST_HITS: Final = 32  # per range; in a range with more hits every record counts as a match
_MAX_RANGES: Final = 4096  # ranges whose positions are cached: half a gigabyte of the log, at most 6 MB of memory

Needles = tuple[bytes, ...]


class SearchedRange(NamedTuple):
    """Positions of needles in ``[start, end)`` of the log."""

    start: int
    end: int
    hits: tuple[int, ...] | None  # ascending log offsets; None: too many to be useful


class NeedleMatches(NamedTuple):
    """Records that contain a needle, as far as the log was searched."""

    indexes: list[int]  # ascending; may include records without a needle
    known: int  # number of records examined: fewer than given if the rest is not in memory, or too long


class NeedleHits:
    """The most recently searched ranges. Belongs to the event loop."""

    def __init__(self, log: CommitLog, blocks: LogBlocks) -> None:
        """Nothing is read before the first `holding`."""
        self._log = log
        self._blocks = blocks
        self._ranges: OrderedDict[tuple[Needles, int], SearchedRange] = OrderedDict()  # least recently used first

    def holding(self, needles: Needles, offsets: Sequence[int], sizes: Sequence[int], most_reads: int) -> NeedleMatches:
        """Find the records that contain one of *needles*.

        Args:
            needles: at least one; none longer than `OVERLAP_BYTES`.
            offsets: log offsets of the records, ascending.
            sizes: bytes of each.
            most_reads: maximum number of ranges to read; budget 60 us each.
        """
        found: dict[int, None] = {}
        position, end, reads = offsets[0], offsets[-1] + sizes[-1], 0
        while position < end:
            number = position // BLOCK_BYTES
            searched = self._ranges.get((needles, number))
            if searched is not None and searched.start <= position < searched.end:
                self._ranges.move_to_end((needles, number))
            else:
                searched = self._searched(needles, number, position) if reads < most_reads else None
                reads += 1
                if searched is None:
                    known = bisect_left(offsets, position)
                    while known and offsets[known - 1] + sizes[known - 1] > position:
                        known -= 1
                    return NeedleMatches([index for index in found if index < known], known)
            if searched.hits is None:
                first = max(bisect_right(offsets, position) - 1, 0)
                found.update(dict.fromkeys(range(first, bisect_left(offsets, searched.end))))
            else:
                for hit in searched.hits:
                    index = bisect_right(offsets, hit) - 1
                    if index >= 0 and hit < offsets[index] + sizes[index]:
                        found[index] = None
            position = searched.end
        return NeedleMatches(list(found), len(offsets))

    def searched(self, needles: Needles, log_offset: int) -> bool:
        """Return whether the range around *log_offset* was searched before."""
        return (needles, log_offset // BLOCK_BYTES) in self._ranges

    def clear(self) -> None:
        """Forget all ranges, because the log was truncated."""
        self._ranges.clear()

    def _searched(self, needles: Needles, number: int, position: int) -> SearchedRange | None:
        """Search the range around *position*; None if it is not in memory."""
        block = self._blocks.shared(position, position + 1)
        file = self._log.find(position)
        if block is None or file is None:
            return None
        whole = min((number + 1) * BLOCK_BYTES, file.end)
        searched = SearchedRange(block.start, min(whole, block.end), _hits(block.data, needles, block.start, whole))
        if searched.end == whole:
            self._ranges[needles, number] = searched
            self._ranges.move_to_end((needles, number))
            if len(self._ranges) > _MAX_RANGES:
                self._ranges.popitem(last=False)
        return searched


def _hits(data: bytes, needles: Needles, start: int, end: int) -> tuple[int, ...] | None:
    """Return the positions of needles before *end* in *data*, which begins at log offset *start*."""
    found: list[int] = []
    for needle in needles:
        search_end = end - start + len(needle) - 1
        at = data.find(needle, 0, search_end)
        while at >= 0:
            if len(found) == _MOST_HITS:
                return None
            found.append(start + at)
            at = data.find(needle, at + 1, search_end)
    return tuple(sorted(found))
