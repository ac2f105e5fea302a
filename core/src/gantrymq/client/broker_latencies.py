"""How long brokers take for a send, lately. Measurements and time in, estimates out; no I/O.

A moving average in which each measurement has a fifth. It halves in every 10 s without a measurement, so that a broker
that was slow is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["BrokerLatencies"]

WEIGHT: Final = 0.2
HALF_LIFE_MS: Final = 10_000
LEAST_MS: Final = 1.0  # differences below are chance; those of nothing known are told apart by what is under way
LOST_MS: Final = 10_000.0


class BrokerLatencies:
    """By name of a broker; times are milliseconds of one clock that only goes forward."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}  # estimate and when

    def measured(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """*broker* answered a send after *latency_ms*."""
        known = self.estimate_ms(broker, now_ms)
        self._known[broker] = (latency_ms if known is None else known + WEIGHT * (latency_ms - known), now_ms)

    def lost(self, broker: str, now_ms: float) -> None:
        """It gave no answer, or refused."""
        self._known[broker] = (LOST_MS, now_ms)

    def estimate_ms(self, broker: str, now_ms: float) -> float | None:
        """Milliseconds that a send is likely to take; None where none was measured."""
        known = self._known.get(broker)
        return known[0] * 0.5 ** ((now_ms - known[1]) / HALF_LIFE_MS) if known is not None else None

    def best(self, brokers: Iterable[str], under_way: Callable[[str], int], now_ms: float) -> str:
        """The one of *brokers* that answers soonest, given how many sends it has *under_way*; the first of equals."""

        def cost(broker: str) -> float:
            return max(self.estimate_ms(broker, now_ms) or 0.0, LEAST_MS) * (1 + under_way(broker))

        return min(brokers, key=cost)
