"""Tag subscriptions for GantryMQ: the broker compares hashes, the client compares tags."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq_filter_tag.filter import TagFilter as TagFilter
else:  # the entry point `gantrymq_filter_tag.plugin` imports this package in every server and command
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(__name__, {"gantrymq_filter_tag.filter": "TagFilter"})
