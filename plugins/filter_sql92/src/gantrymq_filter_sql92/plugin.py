"""Registers the filter type SQL92, its Bloom filters and the command ``filter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import CommandRegistry, ConfigRegistry, FilterRegistry, ServiceRegistry
from gantrymq.remoting.serving import HandlerRegistry, handlers_of
from gantrymq_filter_sql92.bitmap.settings import SCHEMA

if TYPE_CHECKING:
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap

_of_this_load: list[FilterBitMap] = []  # pluggy calls the hooks of one load in a row; filters come before services


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type."""
    from gantrymq_filter_sql92.bitmap.service import FilterBitMap  # commands need neither these nor the grammar
    from gantrymq_filter_sql92.expression import compiled
    from gantrymq_filter_sql92.filter import SQL92, Sql92Filter

    def filter_type() -> Sql92Filter:
        compiled("TRUE")  # loads the grammar, so that no pull waits for it
        return Sql92Filter(bit_map.filter_of)

    bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
    _of_this_load[:] = [bit_map]
    registry.add(SQL92, filter_type)


@hookimpl
def gantry_register_handlers(registry: HandlerRegistry) -> None:
    """Register the handler of queue entries with bits."""
    for code, handler in handlers_of(_of_this_load[0].queue_entries()).items():
        registry.add(code, handler)


@hookimpl
def gantry_register_services(registry: ServiceRegistry) -> None:
    """Register the service of the bit map."""
    registry.add(_of_this_load[0])


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Register ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
