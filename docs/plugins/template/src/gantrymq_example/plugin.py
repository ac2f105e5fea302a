"""Registrations of this plugin. The entry point ``example`` of ``pyproject.toml`` names this module."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import AllocationRegistry, DispatcherRegistry, FilterRegistry
from gantrymq_example.counts import TopicCounts
from gantrymq_example.prefix import PrefixFilter
from gantrymq_example.rendezvous import Rendezvous


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Add the filter type PREFIX."""
    registry.add(PrefixFilter.name, PrefixFilter)


@hookimpl
def gantry_register_allocations(registry: AllocationRegistry) -> None:
    """Add the strategy rendezvous."""
    registry.add(Rendezvous.name, Rendezvous)


@hookimpl
def gantry_register_dispatchers(registry: DispatcherRegistry) -> None:
    """Add the follower topic_counts."""
    registry.add(TopicCounts.name, TopicCounts)
