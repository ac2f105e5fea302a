"""Expressions for everybody who needs one: `parse` for the tree, `compiled` for the answers."""

from __future__ import annotations

from gantrymq.errors import GantryError
from gantrymq_filter_sql92.compiling import condition
from gantrymq_filter_sql92.parser import parse
from gantrymq_filter_sql92.tree import Expression, property_names

__all__ = ["CompiledExpression", "compiled", "parse"]


class CompiledExpression:
    """An expression that answers for messages; keeps nothing of them and may be asked from any thread."""

    __slots__ = ("_condition", "names", "text", "tree")

    text: str
    tree: Expression
    names: tuple[str, ...]  # of the properties it may look at, sorted

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.tree = tree
        self.names = property_names(tree)
        self._condition = condition(tree)

    def evaluate(self, properties: bytes) -> bool | None:
        """True, false, or None for unknown (SQL's NULL).

        Args:
            properties: the property bytes of a record, as stored.

        Raises:
            EvaluationFailed: Java raises an exception too, as where a number is compared with a text that is none.
        """
        return self._condition(properties)

    def matches(self, properties: bytes) -> bool:
        """Whether a consumer gets the message: the answer is true, and nothing failed on the way to it."""
        try:
            return self._condition(properties) is True
        except GantryError:
            return False

    def __repr__(self) -> str:
        return f"CompiledExpression({self.text!r})"


def compiled(text: str) -> CompiledExpression:
    """Read and compile an expression.

    Raises:
        SubscriptionParseFailed: as `parse`.
    """
    return CompiledExpression(text, parse(text))
