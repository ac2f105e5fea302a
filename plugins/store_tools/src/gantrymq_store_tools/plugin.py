"""The plugin's entry point: registers the command ``store``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq store``, which is imported on first use."""
    registry.add_imported(
        "store",
        "gantrymq_store_tools.commands.store:store",
        "Check, repair, read and back up the files of a store.",
    )
