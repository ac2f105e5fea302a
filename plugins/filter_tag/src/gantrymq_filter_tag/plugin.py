"""Entry point ``filter_tag``: registers the filter type TAG."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import FilterRegistry
from gantrymq_filter_tag.filter import TagFilter


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type TAG."""
    registry.add(TagFilter.name, TagFilter)
