"""Metrics of undecided transactions."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import Broker, MetricFamily
from gantrymq_transaction.undecided_stats import UndecidedStats

__all__ = ["register_transaction_metrics"]


def register_transaction_metrics(broker: Broker, undecided: Callable[[], UndecidedStats]) -> None:
    """Register the metrics with the broker."""

    def count() -> MetricFamily:
        text = "Undecided half messages."
        return MetricFamily("gantrymq_transactions_undecided", text, (), {(): undecided().count})

    def oldest() -> MetricFamily:
        born_ms = undecided().oldest_born_ms
        age_s = 0.0 if born_ms is None else max(0.0, (broker.world.clock.now_ms() - born_ms) / 1000)
        text = "Age of the oldest transaction that the last check left undecided."
        return MetricFamily("gantrymq_transactions_oldest_seconds", text, (), {(): age_s})

    broker.register_metrics(count)
    broker.register_metrics(oldest)
