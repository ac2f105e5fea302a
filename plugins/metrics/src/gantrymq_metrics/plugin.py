"""Entry point ``metrics``: the service that exports metrics, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, ServiceRegistry


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of the metrics port."""
    from gantrymq_metrics.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    from gantrymq_metrics.service import MetricsService

    registry.add(MetricsService())
