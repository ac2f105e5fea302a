"""Settings of the metrics port, under RocketMQ's keys.

Two defaults differ from RocketMQ's: metrics are enabled, because this plugin is installed for them, and the port is
open on the loopback address only.

Source: apache/rocketmq common/.../BrokerConfig.java, common/.../metrics/MetricsExporterType.java.
"""

from __future__ import annotations

from gantrymq.plugin.settings import Setting, Value

TYPE = "metricsExporterType"
HOST = "metricsPromExporterHost"
PORT = "metricsPromExporterPort"
QUEUE_LAG_LIMIT = "metricsQueueLagLimit"  # ours

PROMETHEUS = ("PROM", "2")
_OFF = ("DISABLE", "0")
_PUSHED = ("OTLP_GRPC", "1", "LOG", "3")


def _not_built(value: Value) -> str | None:
    if value in _PUSHED:
        return (
            "this exporter is not implemented in this version; PROM lets Prometheus fetch the figures, DISABLE turns "
            "them off"
        )
    return None


SCHEMA: tuple[Setting, ...] = (
    Setting.text(
        TYPE,
        "PROM",
        "PROM serves Prometheus text and a health check over HTTP, DISABLE opens no port.",
        choices=(*_OFF, *PROMETHEUS, *_PUSHED),
        not_built=_not_built,
    ),
    Setting.text(HOST, "127.0.0.1", "Address of the metrics port; empty means the advertised address (brokerIP1)."),
    Setting.number(
        PORT,
        5557,
        "Metrics port; 0 picks a free one. A configured port in use prevents the start; the default only warns.",
        at_least=0,
        at_most=65535,
    ),
    Setting.number(
        QUEUE_LAG_LIMIT,
        2000,
        "Queues whose lag has a series of its own, the largest lags first; the rest of each group's lag is one series.",
        at_least=0,
        at_most=1_000_000,
        runtime=True,
    ),
)
