"""Where GantryMQ finds the filter type SQL92, and the bit map that goes before it."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.bitmap.settings import SCHEMA
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import SQL92, Sql92Filter


def _bit_map() -> FilterBitMap:
    return FilterBitMap(SQL92, lambda expression: compiled(expression).matches)


_of_this_load = [_bit_map()]  # hooks of one load are called in a row; filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of the bit map."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    bit_map = _of_this_load[0] = _bit_map()
    registry.add(Sql92Filter.name, lambda: Sql92Filter(bit_map.filter_of))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Keep the bit map while the broker runs."""
    registry.add(_of_this_load[0])
