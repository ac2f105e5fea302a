"""The filter type SQL92: expressions over the properties of messages.

Queue entries contain no properties, so every message is checked by its stored property bytes.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java (isMatchedByCommitLog)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter
from gantrymq.plugin.model import Subscription
from gantrymq_filter_sql92.equalities import needles_of
from gantrymq_filter_sql92.expression import CompiledExpression, compiled

if TYPE_CHECKING:
    from pyspark.sql import Column

SQL92 = "SQL92"


class MatchingMessages:
    """The compiled form of a subscription, a `gantrymq.interfaces.SliceFilter`."""

    __slots__ = ("_matches", "expression", "match_slice", "needles")

    accepts_all = False
    needs_message = True

    def __init__(self, expression: CompiledExpression) -> None:
        self.expression = expression
        self._matches = expression.matches
        self.match_slice = expression.matching
        self.needles = needles_of(expression.tree)

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return True: properties are not in the entry."""
        return True

    def match_units(self, runs: Sequence[tuple[bytes, int]]) -> bytes | None:
        """Return 1 for each unit, as `match_entry`."""
        return b"".join(b"\1" * (len(units) // size) for units, size in runs)

    def match_message(self, record: RecordView) -> bool:
        """Return whether the expression is true; False if it is unknown or fails."""
        return self._matches(bytes(record.properties_bytes))

    def match_properties(self, properties: bytes) -> bool:
        """As `match_message`, by the property bytes alone."""
        return self._matches(properties)


class EveryMessage:
    """A subscription in class filter mode: RocketMQ leaves filtering to filter servers and delivers every message."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Return True."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Return True."""
        return True


class Sql92Filter:
    """Compiles SQL92 expressions. Stateless."""

    name = SQL92

    def __init__(self, before: Callable[[Subscription, MatchingMessages], MessageFilter] | None = None) -> None:
        """*before*: wrap a compiled subscription in one that applies other filters first."""
        self._before = before

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Compile the expression of a subscription.

        Raises:
            SubscriptionParseFailed: RocketMQ rejects it too, or it is too long or nested too deeply.
        """
        expression = compiled(subscription.expression)
        if subscription.class_filter:
            return EveryMessage()
        found = MatchingMessages(expression)
        return found if self._before is None else self._before(subscription, found)

    @staticmethod
    def to_column(expression: str, properties: str = "properties") -> Column:
        """Return the expression as a Spark column over a map column with the properties of messages; see `spark`.

        Raises:
            SubscriptionParseFailed: as `compile`.
            ImportError: pyspark is not installed; ``pip install './plugins/filter_sql92[spark]'`` brings it.
        """
        from gantrymq_filter_sql92.spark import to_column

        return to_column(expression, properties)
