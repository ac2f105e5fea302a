"""Families of metrics whose first labels name the broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from gantrymq_metrics.send_times import BOUNDS_S, Histogram
from gantrymq_metrics.snapshot import MetricsSnapshot

__all__ = ["MetricBuilder", "Sample"]

Sample = tuple[Sequence[str], float]  # values of the labels behind the broker's own; value


class MetricBuilder:
    """Makes families whose first labels name the broker."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        figures = snapshot.figures
        self._exporter = (("cluster", "broker"), (figures.cluster, figures.broker))
        self._own = (("cluster", "node_type", "node_id"), (figures.cluster, "broker", figures.broker))

    def _base_labels(self, name: str, as_exporter: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._exporter if as_exporter or name.startswith("gantrymq_") else self._own

    def gauge(
        self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample], *, as_exporter: bool = False
    ) -> Metric:
        """A value that goes up and down; *as_exporter*: the labels are rocketmq-exporter's."""
        names, values = self._base_labels(name, as_exporter)
        family = GaugeMetricFamily(name, text, labels=[*names, *labels])
        for more, value in samples:
            family.add_metric([*values, *more], value)
        return family

    def broker_gauge(self, name: str, text: str, value: float, *, as_exporter: bool = False) -> Metric:
        """A gauge of the broker as a whole."""
        return self.gauge(name, text, (), [((), value)], as_exporter=as_exporter)

    def counter(self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
        """A count that only grows; *name* ends in ``_total``."""
        names, values = self._base_labels(name, False)
        family = CounterMetricFamily(name, text, labels=[*names, *labels])
        for more, value in samples:
            family.add_metric([*values, *more], value)
        return family

    def histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        """The times of sends."""
        names, values = self._base_labels(name, False)
        family = HistogramMetricFamily(name, text, labels=list(names))
        bounds = [*map(floatToGoString, BOUNDS_S), "+Inf"]
        family.add_metric(values, list(zip(bounds, map(float, histogram.buckets), strict=True)), histogram.sum_s)
        return family
