"""Statistics of undecided transactions, and their metrics."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gantrymq.plugin.interfaces import BrokerCluster, MetricFamily


@attrs.frozen
class UndecidedStats:
    """Number and age of undecided transactions."""

    count: int
    oldest_born_ms: int | None  # as of the last check round; None if it left none


def register_transaction_metrics(broker: BrokerCluster, undecided: Callable[[], UndecidedStats]) -> None:
    """Register the metrics with the broker."""

    def count() -> MetricFamily:
        text = "Undecided half messages."
        return MetricFamily("gantrymq_transactions_undecided", text, (), {(): undecided().count})

    def oldest() -> MetricFamily:
        born_ms = undecided().oldest_born_ms
        age_s = 0.0 if born_ms is None else max(0.0, (broker.world.clock.now_ms() - born_ms) / 1000)
        text = "Age of the oldest transaction that the last check left undecided."
        return MetricFamily("gantrymq_transactions_oldest_seconds", text, (), {(): age_s})

    broker.metrics.register(count)
    broker.metrics.register(oldest)
