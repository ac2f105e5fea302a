"""Entry point ``kit``: the service that guards custom filters, its settings, and ``gantrymq plugin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry, ConfigRegistry, ServiceRegistry


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the time limits of filters."""
    from gantrymq_kit.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service that guards custom filters."""
    from gantrymq_kit.filters.service import CustomFilters

    registry.add(CustomFilters())


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq plugin``."""
    registry.add_imported("plugin", "gantrymq_kit.projects.command:plugin", "Create a plugin project.")
