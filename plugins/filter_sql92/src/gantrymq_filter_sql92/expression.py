"""The library: `parse` returns the tree of an expression, `compiled` a predicate over messages.

Expressions are parsed by RocketMQ's rules. Keywords are case-insensitive. The condition ends before the first token
that cannot continue it, if it is complete there: ``a > 1 garbage`` is ``a > 1``. A character that starts no token is
rejected if parsing reaches it.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.errors import GantryError
from gantrymq_filter_sql92.compiling import condition
from gantrymq_filter_sql92.nodes import Expression, ExpressionRefused, Misplaced, depth, property_names

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_TOKENS", "CompiledExpression", "Reading", "compiled", "parse", "read"]

MAX_CHARACTERS = 16_384
MAX_TOKENS = 2_000  # words, literals and signs
MAX_DEPTH = 100  # depth in nodes; parentheses do not count


class Reading(NamedTuple):
    """Result of parsing."""

    tree: Expression
    end: int  # characters from 0, after the condition and blanks; the rest is ignored


def parse(text: str) -> Expression:
    """Return the tree of an expression.

    Raises:
        SubscriptionParseFailed: as `read`.
    """
    return read(text).tree


def read(text: str) -> Reading:
    """Return the tree of an expression and its end.

    Raises:
        SubscriptionParseFailed: RocketMQ rejects it too, or it has more than `MAX_CHARACTERS`, `MAX_TOKENS` or
            `MAX_DEPTH`; as `ExpressionRefused`, with the position.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionRefused(
            text, MAX_CHARACTERS, f"{len(text):,} characters, and an expression has at most {MAX_CHARACTERS:,}"
        )
    from gantrymq_filter_sql92.grammar import tree_and_end  # imports lark, which is slow and only needed here

    try:
        reading = Reading(*tree_and_end(text, MAX_TOKENS))
    except Misplaced as problem:
        raise ExpressionRefused(text, problem.at, problem.reason) from None
    levels = depth(reading.tree)
    if levels > MAX_DEPTH:
        raise ExpressionRefused(text, 0, f"an expression of {levels} levels, and at most {MAX_DEPTH} are taken")
    return reading


class CompiledExpression:
    """A compiled expression. Stateless; may be used from any thread."""

    __slots__ = ("_condition", "names", "text", "tree")

    text: str
    tree: Expression
    names: tuple[str, ...]  # of the properties it may read, sorted

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.tree = tree
        self.names = property_names(tree)
        self._condition = condition(tree)

    def evaluate(self, properties: bytes) -> bool | None:
        """Return true, false, or None for unknown (SQL's NULL).

        Args:
            properties: the property bytes of a record, as stored.

        Raises:
            EvaluationFailed: Java raises an exception too, for example if a number is compared with a non-numeric text.
        """
        return self._condition(properties)

    def matches(self, properties: bytes) -> bool:
        """Return whether a consumer receives the message: the result is true and no evaluation failed."""
        try:
            return self._condition(properties) is True
        except GantryError:
            return False

    def matching(self, properties: Sequence[bytes]) -> list[int]:
        """Return the indexes of those *properties* that match, see `matches`."""
        condition, found = self._condition, []
        for index, each in enumerate(properties):
            try:
                if condition(each) is True:
                    found.append(index)
            except GantryError:
                continue
        return found

    def __repr__(self) -> str:
        return f"CompiledExpression({self.text!r})"


def compiled(text: str) -> CompiledExpression:
    """Parse and compile an expression.

    Raises:
        SubscriptionParseFailed: as `parse`.
    """
    return CompiledExpression(text, parse(text))
