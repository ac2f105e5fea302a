"""Registers the filter type SQL92, its Bloom filters and the command ``filter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import CommandRegistry, ConfigRegistry, FilterRegistry, ServiceRegistry
    from gantrymq.plugin.remoting import HandlerRegistry
    from gantrymq_filter_sql92.filter_type import BrokerFilterType

_of_this_load: list[BrokerFilterType] = []  # the filter hook runs before those that use it


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    from gantrymq_filter_sql92.settings import BIT_MAP_SCHEMA, BLOCKS_SCHEMA

    for setting in (*BIT_MAP_SCHEMA, *BLOCKS_SCHEMA):
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type."""
    from gantrymq_filter_sql92.filter_type import BrokerFilterType

    filter_type = BrokerFilterType()
    _of_this_load[:] = [filter_type]
    registry.add(filter_type.name, lambda: filter_type)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handler of queue entries with bits."""
    from gantrymq.plugin.remoting import handlers_of

    for code, handler in handlers_of(_of_this_load[0].bit_map.queue_entries).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the services of the bit map and of the block filters."""
    registry.add(_of_this_load[0].bit_map)
    registry.add(_of_this_load[0].blocks)


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
