"""Entry point ``kit``: the service that guards custom filters, its settings, and ``gantrymq plugin``."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import CommandRegistry, ConfigRegistry, ServiceRegistry
from gantrymq_kit.filters.service import CustomFilters
from gantrymq_kit.settings import SCHEMA


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare how long filters may take."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Guard filters for as long as the broker runs."""
    registry.add(CustomFilters())


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Begin plugins."""
    registry.add_imported("plugin", "gantrymq_kit.projects.command:plugin", "Begin a plugin of your own.")
