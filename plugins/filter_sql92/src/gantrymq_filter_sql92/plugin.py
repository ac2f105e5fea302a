"""Where GantryMQ finds the filter type SQL92, the bit map and the block filters that go before it."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, FilterRegistry, MessageFilter, ServiceRegistry
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.bitmap.settings import SCHEMA as BIT_MAP_SCHEMA
from gantrymq_filter_sql92.blocks.service import BlockFilters
from gantrymq_filter_sql92.blocks.settings import SCHEMA as BLOCKS_SCHEMA
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import SQL92, MatchingMessages, Sql92Filter


class _Load:
    """What belongs together: hooks of one load are called in a row."""

    def __init__(self) -> None:
        self.bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
        self.blocks = BlockFilters()

    def filter_of(self, subscription: Subscription, found: MatchingMessages) -> MessageFilter:
        """A subscription with all that goes before its expression."""
        return self.blocks.filter_of(subscription, found.expression, self.bit_map.filter_of(subscription, found))


_of_this_load = [_Load()]  # filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in (*BIT_MAP_SCHEMA, *BLOCKS_SCHEMA):
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    load = _of_this_load[0] = _Load()
    registry.add(Sql92Filter.name, lambda: Sql92Filter(load.filter_of))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Keep the bit map and the block filters while the broker runs."""
    registry.add(_of_this_load[0].bit_map)
    registry.add(_of_this_load[0].blocks)
