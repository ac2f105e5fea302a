"""The filter type SQL92: expressions over the properties of messages.

Queue entries contain no properties, so every message is checked by its stored property bytes.

Equalities required by an expression: pairs of a property and a value, one of which every matching message has.

    a = 'x'                      a has the value x
    a = 'x' AND b = 'y'          either side suffices; the one with fewer pairs is taken
    a = 'x' OR b = 'y'           both pairs, one of which must hold
    a IN ('x', 'y')              both pairs
    a = 1                        a has a value that parses to the number 1: 1, 01, +1, 1.0
    NOT ..., a > 1, a <> 'x'     none

Pairs may pass a message that does not match, but never reject one that does.

Source: apache/rocketmq broker/.../filter/ExpressionMessageFilter.java (isMatchedByCommitLog)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter
from gantrymq.plugin.model import Subscription
from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.expression import CompiledExpression, compiled
from gantrymq_filter_sql92.nodes import Expression

if TYPE_CHECKING:
    from pyspark.sql import Column


MOST_PAIRS = 32  # pairs of one expression; an expression with more counts as one without required equalities
MOST_NEEDLES = 8  # search strings of one expression; an expression with more has none
SQL92 = "SQL92"


class Equality(NamedTuple):
    """A property and its value."""

    name: str
    value: str | float  # a number equals every text that parses to it


Pairs = frozenset[Equality]


def required_equalities(tree: Expression) -> Pairs | None:
    """Return pairs of which one must hold if *tree* is true; empty if it is never true. None: nothing is required."""
    match tree:
        case nodes.And(operands):
            found = [pairs for each in operands if (pairs := required_equalities(each)) is not None]
            return min(found, key=_looseness, default=None)
        case nodes.Or(operands):
            return _all_of([required_equalities(each) for each in operands])
        case nodes.Comparison(nodes.Property(name), "=", value) | nodes.Comparison(value, "=", nodes.Property(name)):
            return _pair(name, value)
        case nodes.In(nodes.Property(name), values, False):
            return _all_of([_text_pair(name, value) for value in values])
        case nodes.Boolean(True):
            return None
        case nodes.Boolean():
            return frozenset()
    return None


def needles_of(tree: Expression) -> tuple[bytes, ...]:
    """Return byte strings of which the stored properties of each matching message contain one; empty: unknown."""
    needles = {
        f"{name}\x01{value if isinstance(value, str) else ''}".encode()
        for name, value in required_equalities(tree) or ()
    }
    return tuple(sorted(needles)) if len(needles) <= MOST_NEEDLES else ()


def _looseness(pairs: Pairs) -> tuple[int, int]:
    return len(pairs), sum(not isinstance(pair.value, str) for pair in pairs)


def _pair(name: str, value: Expression) -> Pairs | None:
    match value:
        case nodes.Text(text):
            return _text_pair(name, text)
        case nodes.Integer(number) | nodes.Double(number):
            return frozenset({Equality(name, number + 0.0)})
        case nodes.Negative(nodes.Integer(number) | nodes.Double(number)):
            return frozenset({Equality(name, 0.0 - number)})
    return None


def _text_pair(name: str, text: str) -> Pairs | None:
    """Return None if other stored bytes can decode to the same text: invalid UTF-8 decodes to U+FFFD."""
    if "\ufffd" in text or any("\ud800" <= each <= "\udfff" for each in text):
        return None
    return frozenset({Equality(name, text)})


def _all_of(found: list[Pairs | None]) -> Pairs | None:
    pairs: set[Equality] = set()
    for each in found:
        if each is None:
            return None
        pairs |= each
    return frozenset(pairs) if len(pairs) <= MOST_PAIRS else None


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
