"""Human-readable form of an expression: its tree line by line, and the result of each part for one message."""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.compiling import condition, operand
from gantrymq_filter_sql92.format import format_expression
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.values import EvaluationFailed

__all__ = ["answer_of", "kind_of", "tree_lines"]

_ANSWERS = {True: "true", False: "false", None: "unknown"}
_INDENT = "  "


def tree_lines(tree: Expression, properties: bytes | None = None) -> Iterator[str]:
    """Yield one line per part, parents first; with *properties* also its result for a message with these properties."""
    for level, node in nodes.walk(tree):
        line = _INDENT * (level - 1) + kind_of(node)
        if properties is not None and not isinstance(node, nodes.Text | nodes.Number | nodes.Boolean):
            line += f": {answer_of(node, properties)}"
        yield line


def kind_of(node: Expression) -> str:
    """Describe a part without its operands."""
    match node:
        case nodes.Property(name):
            return f"property {name}"
        case nodes.Present(inner):
            return f"condition {inner.name} (unknown without the property, otherwise false)"
        case nodes.Text():
            return f"text {format_expression(node)}"
        case nodes.Integer(value):
            return f"{'long' if node.is_long else 'integer'} {value}"
        case nodes.Double():
            return f"double {format_expression(node)}"
        case nodes.Negative():
            return "minus"
        case nodes.Not():
            return "NOT"
        case nodes.And():
            return "AND"
        case nodes.Or():
            return "OR"
        case nodes.Comparison(_, operator):
            return operator
        case nodes.Between(negated=negated):
            return "NOT BETWEEN" if negated else "BETWEEN"
        case nodes.IsNull(negated=negated):
            return "IS NOT NULL" if negated else "IS NULL"
        case nodes.In(_, values, negated):
            return f"{'NOT ' * negated}IN ({', '.join(format_expression(nodes.Text(value)) for value in values)})"
        case nodes.TextMatch(_, operator, search, negated):
            return f"{'NOT ' * negated}{operator} {format_expression(nodes.Text(search))}"
    return format_expression(node)


def answer_of(node: Expression, properties: bytes) -> str:
    """Describe the result of a part for a message with such property bytes."""
    try:
        value = condition(node)(properties) if _is_condition(node) else operand(node)(properties)
    except EvaluationFailed as failure:
        return f"fails: {failure}"
    if value is None or isinstance(value, bool):
        return _ANSWERS[value]
    return repr(value) if isinstance(value, float) else str(value) if isinstance(value, int) else f"'{value}'"


def _is_condition(node: Expression) -> bool:
    return not isinstance(node, nodes.Property | nodes.Text | nodes.Number | nodes.Negative)
