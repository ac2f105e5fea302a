"""Entry point ``metrics``: the service that exports metrics, and its settings."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry
from gantrymq_metrics.service import MetricsService
from gantrymq_metrics.settings import SCHEMA


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of the metrics port."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    registry.add(MetricsService())
