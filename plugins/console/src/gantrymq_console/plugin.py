"""Registers the command ``gantrymq console``, the service ``console`` and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl

if TYPE_CHECKING:
    from gantrymq.interfaces import CommandRegistry


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register the command, which is imported when it is used."""
    registry.add_imported("console", "gantrymq_console.commands.console:console", "Serve the web console.")
