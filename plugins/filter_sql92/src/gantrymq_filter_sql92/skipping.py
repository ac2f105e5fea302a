"""Expressions whose pulls skip the messages that block filters exclude."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import Candidates, ValuesOf
from gantrymq.plugin.model import Queue
from gantrymq_filter_sql92.block_filters import BlockFilters, RequiredKeys, key_of
from gantrymq_filter_sql92.expression import CompiledExpression
from gantrymq_filter_sql92.filter import MatchingMessages, required_equalities
from gantrymq_filter_sql92.nodes import Expression


def required_keys(tree: Expression) -> RequiredKeys | None:
    """Return the property and the keys that *tree* requires; None if it does not require equalities of one property."""
    pairs = required_equalities(tree)
    names = {pair.name for pair in pairs or ()}
    if not pairs or len(names) != 1:
        return None
    return RequiredKeys(names.pop(), frozenset(key_of(pair.value) for pair in pairs))


class SkippingMessages(MatchingMessages):
    """An expression that requires equalities of one property; a `gantrymq.interfaces.SkippingFilter`."""

    __slots__ = ("_filters", "_required")

    def __init__(
        self, expression: CompiledExpression, required: RequiredKeys, filters: Callable[[], BlockFilters | None]
    ) -> None:
        """*filters*: return those of the running broker, None if there are none."""
        super().__init__(expression)
        self._required, self._filters = required, filters

    def candidates(self, queue: Queue, version: int, begin: int, end: int) -> Candidates:
        """Return the first part that no block filter excludes."""
        filters = self._filters()
        if filters is None:
            return Candidates(queue, version, begin, end, end)
        return filters.candidates(self._required, queue, version, begin, end)

    def narrowed(self, part: Candidates, end: int, values: ValuesOf) -> tuple[list[int], int] | None:
        """Collect values of blocks that are read again, and use them."""
        filters = self._filters()
        return None if filters is None else filters.narrowed(self._required, part, end, values)

    def examined(self, part: Candidates, end: int) -> None:
        """Note that blocks were read."""
        filters = self._filters()
        if filters is not None:
            filters.examined(self._required, part, end)
