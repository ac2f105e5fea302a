"""The parts of one loaded plugin: the filter type, and the bit map applied before it."""

from __future__ import annotations

from gantrymq_filter_sql92.bitmap.service import FilterBitMap
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import SQL92, Sql92Filter

__all__ = ["CombinedFilters"]


class CombinedFilters:
    """The filter type and the service of the bit map."""

    def __init__(self) -> None:
        self.bit_map = FilterBitMap(SQL92, lambda expression: compiled(expression).matches)
        self.name = SQL92

    def filter_type(self) -> Sql92Filter:
        """Return the filter type with the grammar loaded, so that no pull waits for it."""
        compiled("TRUE")
        return Sql92Filter(self.bit_map.filter_of)
