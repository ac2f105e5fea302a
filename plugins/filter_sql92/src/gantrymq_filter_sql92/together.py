"""What one load of the plugin consists of: the filter type, and the Bloom filters that go before it."""

from __future__ import annotations

from gantrymq.interfaces import MessageFilter
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.blocks.service import BlockFilters
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import SQL92, MatchingMessages, Sql92Filter

__all__ = ["Together"]


class Together:
    """Filter type and services that know each other."""

    def __init__(self) -> None:
        self.bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
        self.blocks = BlockFilters()
        self.name = SQL92

    def filter_type(self) -> Sql92Filter:
        """The filter type, ready to read: a broker asks as it starts, so that no pull waits for the grammar."""
        compiled("TRUE")
        return Sql92Filter(self._with_all)

    def _with_all(self, subscription: Subscription, found: MatchingMessages) -> MessageFilter:
        """A subscription with all that goes before its expression: block filters, the bit map, needles."""
        return self.blocks.filter_of(subscription, found.expression, self.bit_map.filter_of(subscription, found))
