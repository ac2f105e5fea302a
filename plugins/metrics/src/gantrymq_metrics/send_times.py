"""How long sends take: a histogram that counts whole batches.

All messages of a batch share its time, from the append to the acknowledgement, so one look-up serves them all.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram(NamedTuple):
    """Counts as Prometheus wants them."""

    buckets: tuple[int, ...]  # messages up to each of BOUNDS_S, then all of them
    sum_s: float  # times of all messages


class SendTimes:
    """Collects batches."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def acknowledged(self, messages: int, seconds: float) -> None:
        """Count one batch. Budget: 0.2 us (`bench_metrics.py`)."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += messages
        self._sum_s += messages * seconds

    def histogram(self) -> Histogram:
        """What was counted so far."""
        return Histogram(tuple(accumulate(self._counts)), self._sum_s)
