"""Moving averages of how long brokers take for a send. Pure: measurements and time in, estimates out.

Each measurement has a weight of one fifth. The average halves every 10 s without a measurement, so that a broker that
was slow is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["BrokerLatencies"]

WEIGHT: Final = 0.2
HALF_LIFE_MS: Final = 10_000
# Differences below this are noise. Brokers without measurements then differ only by their sends in flight.
LEAST_MS: Final = 1.0
LOST_MS: Final = 10_000.0


class BrokerLatencies:
    """Latency estimates by broker name. Times are milliseconds of a monotonic clock."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}  # estimate and when it was made

    def measured(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """Note that *broker* answered a send after *latency_ms*."""
        known = self.estimate_ms(broker, now_ms)
        self._known[broker] = (latency_ms if known is None else known + WEIGHT * (latency_ms - known), now_ms)

    def lost(self, broker: str, now_ms: float) -> None:
        """Note that *broker* did not answer, or refused."""
        self._known[broker] = (LOST_MS, now_ms)

    def estimate_ms(self, broker: str, now_ms: float) -> float | None:
        """Return the expected milliseconds of a send, or None without a measurement."""
        known = self._known.get(broker)
        return known[0] * 0.5 ** ((now_ms - known[1]) / HALF_LIFE_MS) if known is not None else None

    def best(self, brokers: Iterable[str], under_way: Callable[[str], int], now_ms: float) -> str:
        """Return the fastest of *brokers*, given how many sends each has *under_way*; the first one of equals."""

        def cost(broker: str) -> float:
            return max(self.estimate_ms(broker, now_ms) or 0.0, LEAST_MS) * (1 + under_way(broker))

        return min(brokers, key=cost)
