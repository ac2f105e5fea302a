"""The library: `parse` returns the tree of an expression, `compiled` a predicate over messages."""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.errors import GantryError
from gantrymq_filter_sql92.compiling import condition
from gantrymq_filter_sql92.nodes import Expression, property_names
from gantrymq_filter_sql92.parser import parse

__all__ = ["CompiledExpression", "compiled", "parse"]


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
