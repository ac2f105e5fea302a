"""Metric families as Prometheus text (format 0.0.4), with the labels of the broker. Lines are made one by one: a family
may have as many as the broker has topics and groups.

    # HELP name One sentence.
    # TYPE name gauge
    name{cluster="DefaultCluster",broker="broker-a",broker_id="0",topic="Orders"} 3

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (text-based format, comments and escapes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gantrymq_metrics.send_times import BOUNDS_S, Histogram
from gantrymq_metrics.snapshot import MetricsSnapshot

Sample = tuple[Sequence[str], float]  # values of the labels after the broker's own, and the sample's value


class Family(NamedTuple):
    """One metric with its samples."""

    head: str  # the two comments
    lines: Iterator[str]  # about 1 us each


class MetricBuilder:
    """Builds metric families that begin with the labels of the broker."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        figures = snapshot.figures
        self._escaped = _Escaped()
        cluster, broker, broker_id = figures.cluster, figures.broker, ("broker_id", str(figures.broker_id))
        self._exporter = self._pairs(("cluster", cluster), ("broker", broker), broker_id)
        self._own = self._pairs(("cluster", cluster), ("node_type", "broker"), ("node_id", broker), broker_id)

    def gauge(
        self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample], *, as_exporter: bool = False
    ) -> Family:
        """Build a gauge; *as_exporter*: with rocketmq-exporter's labels."""
        return Family(_head(name, text, "gauge"), self._lines(name, labels, samples, as_exporter))

    def broker_gauge(self, name: str, text: str, value: float, *, as_exporter: bool = False) -> Family:
        """Build a gauge with a single value for the whole broker."""
        return self.gauge(name, text, (), [((), value)], as_exporter=as_exporter)

    def counter(self, name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Family:
        """Build a counter; *name* must end in ``_total``."""
        return Family(_head(name, text, "counter"), self._lines(name, labels, samples, False))

    def histogram(self, name: str, text: str, histogram: Histogram) -> Family:
        """Build a histogram."""
        bounds = [*map(repr, BOUNDS_S), "+Inf"]
        buckets = [((bound,), count) for bound, count in zip(bounds, histogram.buckets, strict=True)]
        lines = [
            *self._lines(f"{name}_bucket", ("le",), buckets, False),
            *self._lines(f"{name}_count", (), [((), histogram.buckets[-1])], False),
            *self._lines(f"{name}_sum", (), [((), histogram.sum_s)], False),
        ]
        return Family(_head(name, text, "histogram"), iter(lines))

    def _lines(self, name: str, labels: Sequence[str], samples: Iterable[Sample], as_exporter: bool) -> Iterator[str]:
        own = self._exporter if as_exporter or name.startswith("gantrymq_") else self._own
        line = name + "{" + ",".join([own.replace("%", "%%"), *(f'{label}="%s"' for label in labels)]) + "} %s\n"
        escaped = self._escaped
        for values, number in samples:
            yield line % (*[escaped[value] for value in values], +number)  # + makes a bool a number

    def _pairs(self, *pairs: tuple[str, str]) -> str:
        return ",".join(f'{label}="{self._escaped[value]}"' for label, value in pairs)


class _Escaped(dict[str, str]):
    """Label values as they are written, each escaped once."""

    def __missing__(self, value: str) -> str:
        escaped = self[value] = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        return escaped


def _head(name: str, text: str, kind: str) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
