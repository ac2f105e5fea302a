"""The filter type SQL92 of a broker, which imports the grammar when the first subscription is compiled."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gantrymq.plugin.model import SQL92
from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.block_filters import BlockFilterService

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import MessageFilter
    from gantrymq.plugin.model import Subscription
    from gantrymq_filter_sql92.bitmap.message_filter import Matches
    from gantrymq_filter_sql92.filter import Sql92Filter


class BrokerFilterType:
    """SQL92 with the bits of groups and with block filters."""

    name = SQL92

    def __init__(self) -> None:
        """Create the type and its services."""
        self.bit_map = FilterBitMap(SQL92, _matches)
        self.blocks = BlockFilterService()

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Compile the expression of a subscription. Raises SubscriptionParseFailed: see `filter.Sql92Filter`."""
        return self._inner.compile(subscription)

    @cached_property
    def _inner(self) -> Sql92Filter:
        from gantrymq_filter_sql92.filter import Sql92Filter

        return Sql92Filter(
            lambda subscription, found: self.bit_map.filter_of(subscription, self.blocks.filter_of(found))
        )


def _matches(expression: str) -> Matches:
    from gantrymq_filter_sql92.expression import compiled

    return compiled(expression).matches
