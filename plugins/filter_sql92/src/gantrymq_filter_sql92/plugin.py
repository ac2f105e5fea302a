"""Where GantryMQ finds the filter type SQL92, the bit map that goes before it, and the command ``filter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import CommandRegistry, ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq_filter_sql92.bitmap.settings import SCHEMA

if TYPE_CHECKING:
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap

_of_this_load: list[FilterBitMap] = []  # hooks of one load are called in a row; filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings of the bit map."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    # The grammar is read with these, which a command need not wait for.
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap
    from gantrymq_filter_sql92.expression import compiled
    from gantrymq_filter_sql92.filter import SQL92, Sql92Filter

    bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
    _of_this_load[:] = [bit_map]
    registry.add(Sql92Filter.name, lambda: Sql92Filter(bit_map.filter_of))


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Keep the bit map while the broker runs."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Offer ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
