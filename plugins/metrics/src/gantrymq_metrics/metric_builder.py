"""Construction of metric families with the labels of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from gantrymq_metrics.send_times import BOUNDS_S, Histogram
from gantrymq_metrics.snapshot import MetricsSnapshot

Sample = tuple[Sequence[str], float]  # values of the labels after the broker's own, and the sample's value


class MetricBuilder:
    """Builds metric families that begin with the labels of the broker."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        figures = snapshot.figures
        self._exporter = (("cluster", "broker"), (figures.cluster, figures.broker))
        self._own = (("cluster", "node_type", "node_id"), (figures.cluster, "broker", figures.broker))

    def _base_labels(self, name: str, as_exporter: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._exporter if as_exporter or name.startswith("gantrymq_") else self._own

    def gauge(
        self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample], *, as_exporter: bool = False
    ) -> Metric:
        """Build a gauge; *as_exporter*: with rocketmq-exporter's labels."""
        names, values = self._base_labels(name, as_exporter)
        family = GaugeMetricFamily(name, text, labels=[*names, *labels])
        for more, value in samples:
            family.add_metric([*values, *more], value)
        return family

    def broker_gauge(self, name: str, text: str, value: float, *, as_exporter: bool = False) -> Metric:
        """Build a gauge with a single value for the whole broker."""
        return self.gauge(name, text, (), [((), value)], as_exporter=as_exporter)

    def counter(self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
        """Build a counter; *name* must end in ``_total``."""
        names, values = self._base_labels(name, False)
        family = CounterMetricFamily(name, text, labels=[*names, *labels])
        for more, value in samples:
            family.add_metric([*values, *more], value)
        return family

    def histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        """Build a histogram."""
        names, values = self._base_labels(name, False)
        family = HistogramMetricFamily(name, text, labels=list(names))
        bounds = [*map(floatToGoString, BOUNDS_S), "+Inf"]
        family.add_metric(values, list(zip(bounds, map(float, histogram.buckets), strict=True)), histogram.sum_s)
        return family
