"""Registers the filter type SQL92, its Bloom filters and the command ``filter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import CommandRegistry, ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq.plugin.remoting import HandlerRegistry, handlers_of
from gantrymq_filter_sql92.settings import BIT_MAP_SCHEMA, BLOCKS_SCHEMA

if TYPE_CHECKING:
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap
    from gantrymq_filter_sql92.block_filters import BlockFilterService

# pluggy calls the hooks of one load in a row; filters come before services
_of_this_load: list[tuple[FilterBitMap, BlockFilterService]] = []


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in (*BIT_MAP_SCHEMA, *BLOCKS_SCHEMA):
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type."""
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap  # commands need neither these nor the grammar
    from gantrymq_filter_sql92.block_filters import BlockFilterService
    from gantrymq_filter_sql92.expression import compiled
    from gantrymq_filter_sql92.filter import SQL92, Sql92Filter

    def filter_type() -> Sql92Filter:
        compiled("TRUE")  # loads the grammar, so that no pull waits for it
        return Sql92Filter(lambda subscription, found: bit_map.filter_of(subscription, blocks.filter_of(found)))

    blocks = BlockFilterService()
    bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
    _of_this_load[:] = [(bit_map, blocks)]
    registry.add(SQL92, filter_type)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handler of queue entries with bits."""
    bit_map, _ = _of_this_load[0]
    for code, handler in handlers_of(bit_map.queue_entries).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the services of the bit map and of the block filters."""
    for service in _of_this_load[0]:
        registry.add(service)


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
