"""Entry point ``metrics``: the service that shows figures, and its settings."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, ServiceRegistry
from gantrymq_metrics.service import MetricsService
from gantrymq_metrics.settings import SCHEMA


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare where figures are shown."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Show figures for as long as the broker runs."""
    registry.add(MetricsService())
