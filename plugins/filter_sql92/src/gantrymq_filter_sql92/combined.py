"""The parts of one loaded plugin: the filter type, and the Bloom filters applied before it."""

from __future__ import annotations

from gantrymq.interfaces import MessageFilter
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.blocks.service import BlockFilters
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import SQL92, MatchingMessages, Sql92Filter

__all__ = ["CombinedFilters"]


class CombinedFilters:
    """The filter type and its two services."""

    def __init__(self) -> None:
        self.bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
        self.blocks = BlockFilters()
        self.name = SQL92

    def filter_type(self) -> Sql92Filter:
        """Return the filter type with the grammar loaded, so that no pull waits for it."""
        compiled("TRUE")
        return Sql92Filter(self._with_all)

    def _with_all(self, subscription: Subscription, found: MatchingMessages) -> MessageFilter:
        """Return a subscription with block filters, bit map and search bytes before its expression."""
        return self.blocks.filter_of(subscription, found.expression, self.bit_map.filter_of(subscription, found))
