"""The filter type SQL92: expressions over the properties of messages.

The queue entry says nothing of properties, so every message is looked at: its stored property bytes, not the message.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java (isMatchedByCommitLog)
"""

from __future__ import annotations

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

    def compile(self, subscription: Subscription) -> MessageFilter:
        """Prepare a subscription's expression.

        Raises:
            SubscriptionParseFailed: RocketMQ does not take it either, or it is too long or nested too deep.
        """
        expression = compiled(subscription.expression)
        return EveryMessage() if subscription.class_filter else MatchingMessages(expression)

    @staticmethod
    def to_column(expression: str, properties: str = "properties") -> Column:
        """The expression as a column of Spark, over a map column with the properties of messages; see `spark`.

        Raises:
            SubscriptionParseFailed: as `compile`.
            ImportError: pyspark is not installed; ``pip install 'gantrymq-filter-sql92[spark]'`` brings it.
        """
        from gantrymq_filter_sql92.spark import to_column

        return to_column(expression, properties)
