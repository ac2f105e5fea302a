"""Registers the filter type SQL92, its Bloom filters and the command ``filter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import CommandRegistry, ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq.remoting.serving import HandlerRegistry, handlers_of
from gantrymq_filter_sql92.bitmap.settings import SCHEMA

if TYPE_CHECKING:
    from gantrymq_filter_sql92.combined import CombinedFilters

_of_this_load: list[CombinedFilters] = []  # pluggy calls the hooks of one load in a row; filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type."""
    from gantrymq_filter_sql92.combined import CombinedFilters  # loads the grammar, which commands do not need

    together = CombinedFilters()
    _of_this_load[:] = [together]
    registry.add(together.name, together.filter_type)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handler of queue entries with bits."""
    for code, handler in handlers_of(_of_this_load[0].bit_map.queue_entries()).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service of the bit map."""
    registry.add(_of_this_load[0].bit_map)


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
