"""Registers the command ``gantrymq console``, the service ``console`` and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry, ConfigRegistry, ServiceRegistry


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the setting of the console in a broker's process."""
    from gantrymq_console.service import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service."""
    from gantrymq_console.service import ConsoleService

    registry.add(ConsoleService())


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register the command, which is imported when it is used."""
    registry.add_imported("console", "gantrymq_console.commands.console:console", "Serve the web console.")
