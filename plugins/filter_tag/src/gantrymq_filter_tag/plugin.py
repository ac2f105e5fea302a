"""Entry point ``filter_tag``: registers the filter type TAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import FilterRegistry


@hookimpl
def gantry_register_filters(registry: FilterRegistry) -> None:
    """Register the filter type TAG."""
    from gantrymq_filter_tag.filter import TagFilter

    registry.add(TagFilter.name, TagFilter)
