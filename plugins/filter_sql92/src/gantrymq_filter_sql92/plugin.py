"""Where GantryMQ finds the filter type SQL92 and the command ``filter``."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import CommandRegistry, FilterRegistry


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Offer SQL92 subscriptions."""
    from gantrymq_filter_sql92.filter import Sql92Filter  # with the grammar, which a command need not wait for

    registry.add(Sql92Filter.name, Sql92Filter)


@hookimpl
def gantry_register_commands(registry: CommandRegistry) -> None:
    """Offer ``gantrymq filter``, which is imported when it is used."""
    registry.add_imported(
        "filter",
        "gantrymq_filter_sql92.commands:filter_",
        "Look at SQL92 expressions: what they mean, and which messages they take.",
    )
