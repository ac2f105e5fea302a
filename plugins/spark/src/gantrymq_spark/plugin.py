"""The plugin's entry point: registers the command ``pipeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq pipeline``, which is imported on first use."""
    registry.add_imported(
        "pipeline",
        "gantrymq_spark.commands:pipeline",
        "Archive, query, check and replay messages with Spark.",
    )
