"""The filter type SQL92: expressions over the properties of messages.

The queue entry says nothing of properties, so every message is looked at: its stored property bytes, not the message.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java (isMatchedByCommitLog)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gantrymq.formats.record import RecordView
from gantrymq.interfaces import ExtUnit, MessageFilter
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.expression import CompiledExpression, compiled

if TYPE_CHECKING:
    from pyspark.sql import Column

SQL92 = "SQL92"


class MatchingMessages:
    """The compiled form of a subscription."""

    __slots__ = ("_matches", "expression")

    accepts_all = False
    needs_message = True

    def __init__(self, expression: CompiledExpression) -> None:
        self.expression = expression
        self._matches = expression.matches

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Always True: properties are not in the entry."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Whether the expression is true; not where it is unknown or fails."""
        return self._matches(bytes(record.properties_bytes))

    def match_properties(self, properties: bytes) -> bool:
        """The same of a record with these."""
        return self._matches(properties)


class EveryMessage:
    """A subscription in class filter mode: RocketMQ leaves the choice to its filter servers and gives everything."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Always True."""
        return True

    def match_message(self, record: RecordView) -> bool:
        """Always True."""
        return True


class Sql92Filter:
    """Compiles SQL92 expressions; keeps no state."""

    name = SQL92

    def __init__(self, before: Callable[[Subscription, MatchingMessages], MessageFilter] | None = None) -> None:
        """*before*: makes of a compiled subscription one that looks at something else first."""
        self._before = before

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare a subscription's expression.

        Raises:
            SubscriptionParseFailed: RocketMQ does not take it either, or it is too long or nested too deep.
        """
        expression = compiled(subscription.expression)
        if subscription.class_filter:
            return EveryMessage()
        found = MatchingMessages(expression)
        return found if self._before is None else self._before(subscription, found)

    @staticmethod
    def to_column(expression: str, properties: str = "properties") -> Column:
        """The expression as a column of Spark, over a map column with the properties of messages; see `spark`.

        Raises:
            SubscriptionParseFailed: as `compile`.
            ImportError: pyspark is not installed; ``pip install './plugins/filter_sql92[spark]'`` brings it.
        """
        from gantrymq_filter_sql92.spark import to_column

        return to_column(expression, properties)
