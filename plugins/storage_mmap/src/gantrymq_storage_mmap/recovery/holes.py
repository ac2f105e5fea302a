"""Damaged places of the log with sound records behind them, in log order."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

__all__ = ["EntriesMissing", "Hole", "Holes"]


class EntriesMissing(Exception):
    """The part of the log that was read shows that a queue lacks entries of the part before it. Recovery handles it."""


class Hole(NamedTuple):
    """One of them."""

    start: int  # log offset
    end: int  # where the next sound record or blank stands, or the end of the file
    problem: str
    timestamp: int  # ms, a store time that a filler may have there


class Holes:
    """All that were found so far."""

    def __init__(self) -> None:
        self.found: list[Hole] = []

    def add(self, hole: Hole) -> None:
        """One behind all others; it is one with the one before where they touch."""
        if self.found and self.found[-1].end == hole.start:
            before = self.found.pop()
            hole = Hole(before.start, hole.end, before.problem, before.timestamp)
        self.found.append(hole)

    def hold(self, log_offset: int) -> bool:
        """Whether the record at *log_offset* was lost."""
        index = bisect_right(self.found, log_offset, key=lambda hole: hole.start) - 1
        return index >= 0 and log_offset < self.found[index].end
