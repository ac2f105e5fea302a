"""Histogram of send times, updated once per batch.

All messages of a batch share its time from append to acknowledgement, so one bucket lookup serves them all.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram(NamedTuple):
    """Cumulative counts, as in Prometheus."""

    buckets: tuple[int, ...]  # messages up to each of BOUNDS_S, then all messages
    sum_s: float  # sum of the times of all messages


class SendTimes:
    """Collects the times of batches."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def acknowledged(self, messages: int, seconds: float) -> None:
        """Add one batch. Budget: 0.2 us (`bench_metrics.py`)."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += messages
        self._sum_s += messages * seconds

    def histogram(self) -> Histogram:
        """Return the histogram."""
        return Histogram(tuple(accumulate(self._counts)), self._sum_s)
