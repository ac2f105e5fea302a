"""Counters: messages in and out since the start, and rates over the last seconds and minutes.

Source of names and windows: apache/rocketmq store/.../StoreStatsService.java, broker/.../stats/BrokerStatsManager.java.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gantrymq.interfaces import DispatchEntry

SAMPLE_S = 1.0
WINDOWS_S = (10, 60, 600)


class Meter:
    """A count that grows, with its rate over windows of time."""

    def __init__(self) -> None:
        self.total = 0
        self._samples: deque[tuple[float, int]] = deque(maxlen=int(max(WINDOWS_S) / SAMPLE_S) + 1)

    def sample(self, now: float) -> None:
        """Note the count at monotonic time *now*, s."""
        self._samples.append((now, self.total))

    def rate(self, window_s: float) -> float:
        """Counts a second over the last *window_s* seconds, or over the time since the start if that is shorter."""
        if len(self._samples) < 2:
            return 0.0
        last_at, last = self._samples[-1]
        first_at, first = self._samples[0]
        back = int(window_s / SAMPLE_S) + 1
        if back < len(self._samples):
            first_at, first = self._samples[-back]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0

    def rates(self) -> str:
        """The three windows as RocketMQ prints them, separated by blanks."""
        return " ".join(repr(round(self.rate(window), 6)) for window in WINDOWS_S)


class Stats:
    """What the broker counts of itself."""

    def __init__(self) -> None:
        self.put = Meter()
        self.got = Meter()  # messages handed out
        self.found = Meter()  # pulls that found something
        self.missed = Meter()
        self.put_bytes = 0
        self.put_failed = 0
        self._by_topic: dict[str, int] = {}
        self._topic_samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=7)  # one minute in steps of ten seconds

    def published(self, entries: Sequence[DispatchEntry]) -> None:
        """Count new messages. Budget: 0.3 us a message."""
        by_topic = self._by_topic
        size = 0
        for entry in entries:
            size += entry.size
            topic = entry.topic
            by_topic[topic] = by_topic.get(topic, 0) + 1
        self.put.total += len(entries)
        self.put_bytes += size

    def pulled(self, count: int) -> None:
        """Count one pull that found *count* messages."""
        if count:
            self.got.total += count
            self.found.total += 1
        else:
            self.missed.total += 1

    def sample(self, now: float) -> None:
        """Take a sample; called every SAMPLE_S."""
        for meter in (self.put, self.got, self.found, self.missed):
            meter.sample(now)
        if not self._topic_samples or now - self._topic_samples[-1][0] >= 10:
            self._topic_samples.append((now, dict(self._by_topic)))

    def topic_put_tps(self, topic: str) -> float:
        """Messages a second into *topic* over the last minute."""
        if len(self._topic_samples) < 2:
            return 0.0
        (first_at, first), (last_at, last) = self._topic_samples[0], self._topic_samples[-1]
        return (last.get(topic, 0) - first.get(topic, 0)) / (last_at - first_at) if last_at > first_at else 0.0

    def forget(self, topic: str) -> None:
        """Drop the count of a deleted topic."""
        self._by_topic.pop(topic, None)
