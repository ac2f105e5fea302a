"""Construction of the expression tree, with the checks that RocketMQ makes during construction.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj, .../expression/{Comparison,Constant,Unary}Expression.java
"""

from __future__ import annotations

from lark import Token, Transformer, v_args

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.refusal import Misplaced

_LARGEST = 2**63 - 1
_VALUES = (nodes.Property, nodes.Text, nodes.Integer, nodes.Double, nodes.Negative)


@v_args(inline=True)
class Builder(Transformer[Token, Expression]):
    """One method per grammar rule; each checks only its own operands."""

    def start(self, tree: Expression) -> Expression:
        return _condition(tree)

    def any_of(self, *operands: Expression) -> Expression:
        return nodes.Or(tuple(map(_condition, operands)), at=operands[0].at)

    def all_of(self, *operands: Expression) -> Expression:
        return nodes.And(tuple(map(_condition, operands)), at=operands[0].at)

    def equal_or_not(self, left: Expression, operator: Token, right: Expression) -> Expression:
        for operand in (left, right):
            if isinstance(operand, nodes.Boolean) and operand.value is None:
                raise Misplaced(operand.at, f"{operator} cannot compare with NULL; write IS NULL or IS NOT NULL")
        if isinstance(left, nodes.Boolean) and isinstance(right, nodes.Text | nodes.Number):
            raise Misplaced(
                left.at, f"TRUE or FALSE on the left of {operator} cannot be compared with a number or a text"
            )
        return nodes.Comparison(left, str(operator), right, at=left.at)

    def is_null(self, operand: Expression, _null: Token) -> Expression:
        return nodes.IsNull(operand, False, at=operand.at)

    def is_not_null(self, operand: Expression, _not: Token, _null: Token) -> Expression:
        return nodes.IsNull(operand, True, at=operand.at)

    def order(self, left: Expression, operator: Token, right: Expression) -> Expression:
        _check_ordered(operator, left, right)
        return nodes.Comparison(left, str(operator), right, at=left.at)

    def between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        _check_ordered("BETWEEN", value, low, high)
        if isinstance(low, nodes.Number) and isinstance(high, nodes.Number) and _above(low, high):
            raise Misplaced(low.at, f"BETWEEN starts at {low.value}, above its end {high.value}")
        return nodes.Between(value, low, high, False, at=value.at)

    def not_between(self, value: Expression, _not: Token, low: Expression, high: Expression) -> Expression:
        _check_ordered("NOT BETWEEN", value, low, high)
        return nodes.Between(value, low, high, True, at=value.at)

    def is_in(self, operand: Expression, *texts: Token) -> Expression:
        return _in(operand, texts, False)

    def is_not_in(self, operand: Expression, _not: Token, *texts: Token) -> Expression:
        return _in(operand, texts, True)

    def text_match(self, operand: Expression, operator: str, text: Token) -> Expression:
        return nodes.TextMatch(operand, operator, _unquoted(text), False, at=operand.at)

    def not_text_match(self, operand: Expression, _not: Token, operator: str, text: Token) -> Expression:
        return nodes.TextMatch(operand, operator, _unquoted(text), True, at=operand.at)

    def text_operator(self, token: Token) -> str:
        return token.type

    def negative(self, minus: Token, operand: Expression) -> Expression:
        return nodes.Negative(operand, at=minus.start_pos or 0)

    def negation(self, word: Token, operand: Expression) -> Expression:
        return nodes.Not(_condition(operand), at=word.start_pos or 0)

    def text(self, token: Token) -> Expression:
        return nodes.Text(_unquoted(token), at=token.start_pos or 0)

    def integer(self, token: Token) -> Expression:
        at = token.start_pos or 0
        digits = token.rstrip("lL")
        value = int(digits) if len(digits) < 20 else _LARGEST + 1
        if value > _LARGEST:
            raise Misplaced(at, f"{digits[:24]} is above {_LARGEST}, the largest whole number")
        return nodes.Integer(value, at=at)

    def double(self, token: Token) -> Expression:
        at = token.start_pos or 0
        value = float(token)
        if value == 0:
            raise Misplaced(at, f"{token[:24]} is below 5e-324, the smallest number with a point or an exponent")
        if value == float("inf"):
            raise Misplaced(at, f"{token[:24]} is above 1.7976931348623157e308, the largest number")
        return nodes.Double(value, at=at)

    def true(self, token: Token) -> Expression:
        return nodes.Boolean(True, at=token.start_pos or 0)

    def false(self, token: Token) -> Expression:
        return nodes.Boolean(False, at=token.start_pos or 0)

    def null(self, token: Token) -> Expression:
        return nodes.Boolean(None, at=token.start_pos or 0)

    def property(self, token: Token) -> Expression:
        return nodes.Property(str(token), at=token.start_pos or 0)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _condition(operand: Expression) -> Expression:
    if isinstance(operand, nodes.Property):
        return nodes.Present(operand, at=operand.at)
    if isinstance(operand, _VALUES):
        raise Misplaced(operand.at, "a number or a text is not a condition; compare it with a property")
    return operand


def _check_ordered(operator: str, *operands: Expression) -> None:
    for operand in operands:
        if not isinstance(operand, nodes.Property | nodes.Number | nodes.Negative):
            what = "a text" if isinstance(operand, nodes.Text) else "a condition, TRUE, FALSE or NULL"
            raise Misplaced(operand.at, f"{operator} cannot compare {what}; it compares properties and numbers")


def _above(low: nodes.Number, high: nodes.Number) -> bool:
    if isinstance(low, nodes.Integer) and isinstance(high, nodes.Integer):
        return low.value > high.value
    return float(low.value) > float(high.value)


def _in(operand: Expression, texts: tuple[Token, ...], negated: bool) -> Expression:
    if not isinstance(operand, nodes.Property):
        raise Misplaced(operand.at, "the left side of IN must be a property")
    return nodes.In(operand, tuple(map(_unquoted, texts)), negated, at=operand.at)
