"""Human-readable forms of an expression: its text, its tree line by line, and results of its parts for a message."""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.compiling import condition, operand
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.values import EvaluationFailed

_OR, _AND, _EQUALITY, _COMPARISON, _UNARY, _PRIMARY = range(6)
_WORDS = {True: "TRUE", False: "FALSE", None: "NULL"}
_ANSWERS = {True: "true", False: "false", None: "unknown"}
_INDENT = "  "


def format_expression(tree: Expression) -> str:
    """Return the text of an expression."""
    return _at_least(_OR, tree)


def _at_least(level: int, node: Expression) -> str:
    """Return the text of *node*, in parentheses if it binds less strongly than required."""
    own, text = _level_and_text(node)
    return text if own >= level else f"({text})"


def _level_and_text(node: Expression) -> tuple[int, str]:
    match node:
        case nodes.Or(operands):
            return _OR, " OR ".join(_at_least(_AND, each) for each in operands)
        case nodes.And(operands):
            return _AND, " AND ".join(_at_least(_EQUALITY, each) for each in operands)
        case nodes.Comparison(left, "=" | "<>" as operator, right):
            return _EQUALITY, f"{_at_least(_EQUALITY, left)} {operator} {_at_least(_COMPARISON, right)}"
        case nodes.IsNull(operand, negated):
            return _EQUALITY, f"{_at_least(_EQUALITY, operand)} IS{_not(negated)} NULL"
        case nodes.Comparison(left, operator, right):
            return _COMPARISON, f"{_at_least(_COMPARISON, left)} {operator} {_at_least(_UNARY, right)}"
        case nodes.Between(value, low, high, negated):
            limits = f"{_at_least(_UNARY, low)} AND {_at_least(_UNARY, high)}"
            return _COMPARISON, f"{_at_least(_COMPARISON, value)}{_not(negated)} BETWEEN {limits}"
        case nodes.In(inner, values, negated):
            return _COMPARISON, f"{inner.name}{_not(negated)} IN ({', '.join(map(_quoted, values))})"
        case nodes.TextMatch(operand, operator, search, negated):
            return _COMPARISON, f"{_at_least(_COMPARISON, operand)}{_not(negated)} {operator} {_quoted(search)}"
        case nodes.Not(operand):
            return _UNARY, f"NOT {_at_least(_UNARY, operand)}"
        case nodes.Negative(nodes.Negative() as operand):  # two signs in a row can be a comment
            return _UNARY, f"-({_level_and_text(operand)[1]})"
        case nodes.Negative(operand):
            return _UNARY, f"-{_at_least(_UNARY, operand)}"
    return _PRIMARY, _primary(node)


def _primary(node: Expression) -> str:
    match node:
        case nodes.Present(inner):
            return inner.name
        case nodes.Property(name):
            return name
        case nodes.Text(value):
            return _quoted(value)
        case nodes.Boolean(value):
            return _WORDS[value]
        case nodes.Integer(value):
            return str(value)
        case nodes.Double(value):
            return repr(value)
    raise TypeError(f"{type(node).__name__} is not a part of an expression")


def _not(negated: bool) -> str:
    return " NOT" if negated else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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
