"""Where GantryMQ finds the filter type SQL92, and the block filters that go before it."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq_filter_sql92.blocks.service import BlockFilters
from gantrymq_filter_sql92.blocks.settings import SCHEMA
from gantrymq_filter_sql92.filter import Sql92Filter

_of_this_load: list[BlockFilters] = []  # hooks of one load are called in a row; filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    blocks = BlockFilters()
    _of_this_load[:] = [blocks]
    registry.add(Sql92Filter.name, lambda: Sql92Filter(blocks.filter_of))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Make block filters."""
    registry.add(_of_this_load[0])
