"""Formats a tree as text with the fewest parentheses and keywords in capitals; `parse` returns the same tree for it."""

from __future__ import annotations

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.nodes import Expression

_OR, _AND, _EQUALITY, _COMPARISON, _UNARY, _PRIMARY = range(6)
_WORDS = {True: "TRUE", False: "FALSE", None: "NULL"}


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
