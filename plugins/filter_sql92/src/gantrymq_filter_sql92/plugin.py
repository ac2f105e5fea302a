"""Where GantryMQ finds the filter type SQL92."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import FilterRegistry
from gantrymq_filter_sql92.filter import Sql92Filter


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    registry.add(Sql92Filter.name, Sql92Filter)
