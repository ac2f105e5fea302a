"""Builds the tree for each rule of the grammar, and rejects what RocketMQ rejects while building.

Source: apache/rocketmq filter/.../parser/SelectorParser.jj, .../expression/{Comparison,Constant,Unary}Expression.java
"""

from __future__ import annotations

from lark import Token, Transformer, v_args

from gantrymq_filter_sql92.refusal import Misplaced
from gantrymq_filter_sql92.tree import (
    And,
    Between,
    Boolean,
    Comparison,
    Double,
    Expression,
    In,
    Integer,
    IsNull,
    Negative,
    Not,
    Or,
    Present,
    Property,
    Text,
    TextMatch,
)

_LARGEST = 2**63 - 1
_VALUES = (Property, Text, Integer, Double, Negative)


@v_args(inline=True)
class Builder(Transformer[Token, Expression]):
    """One method per rule; each inspects its own operands only."""

    def start(self, tree: Expression) -> Expression:
        return _condition(tree)

    def any_of(self, *operands: Expression) -> Expression:
        return Or(tuple(map(_condition, operands)), operands[0].at)

    def all_of(self, *operands: Expression) -> Expression:
        return And(tuple(map(_condition, operands)), operands[0].at)

    def equal_or_not(self, left: Expression, operator: Token, right: Expression) -> Expression:
        for operand in (left, right):
            if isinstance(operand, Boolean) and operand.value is None:
                raise Misplaced(operand.at, f"nothing is {operator} NULL; write IS NULL or IS NOT NULL")
        if isinstance(left, Boolean) and isinstance(right, Text | Integer | Double):
            raise Misplaced(
                left.at, f"TRUE and FALSE cannot stand left of {operator} with a number or a text on its right"
            )
        return Comparison(left, str(operator), right, left.at)

    def is_null(self, operand: Expression, _null: Token) -> Expression:
        return IsNull(operand, False, operand.at)

    def is_not_null(self, operand: Expression, _not: Token, _null: Token) -> Expression:
        return IsNull(operand, True, operand.at)

    def order(self, left: Expression, operator: Token, right: Expression) -> Expression:
        _check_ordered(operator, left, right)
        return Comparison(left, str(operator), right, left.at)

    def between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        _check_ordered("BETWEEN", value, low, high)
        if isinstance(low, Integer | Double) and isinstance(high, Integer | Double) and _above(low, high):
            raise Misplaced(low.at, f"BETWEEN starts at {low.value}, above its end {high.value}")
        return Between(value, low, high, False, value.at)

    def not_between(self, value: Expression, _not: Token, low: Expression, high: Expression) -> Expression:
        _check_ordered("NOT BETWEEN", value, low, high)
        return Between(value, low, high, True, value.at)

    def is_in(self, operand: Expression, *texts: Token) -> Expression:
        return _in(operand, texts, False)

    def is_not_in(self, operand: Expression, _not: Token, *texts: Token) -> Expression:
        return _in(operand, texts, True)

    def text_match(self, operand: Expression, operator: str, text: Token) -> Expression:
        return TextMatch(operand, operator, _unquoted(text), False, operand.at)

    def not_text_match(self, operand: Expression, _not: Token, operator: str, text: Token) -> Expression:
        return TextMatch(operand, operator, _unquoted(text), True, operand.at)

    def text_operator(self, token: Token) -> str:
        return token.type

    def negative(self, minus: Token, operand: Expression) -> Expression:
        return Negative(operand, minus.start_pos or 0)

    def negation(self, word: Token, operand: Expression) -> Expression:
        return Not(_condition(operand), word.start_pos or 0)

    def text(self, token: Token) -> Expression:
        return Text(_unquoted(token), token.start_pos or 0)

    def integer(self, token: Token) -> Expression:
        at = token.start_pos or 0
        digits = token.rstrip("lL")
        value = int(digits) if len(digits) < 20 else _LARGEST + 1
        if value > _LARGEST:
            raise Misplaced(at, f"{digits[:24]} is above {_LARGEST}, the largest whole number")
        return Integer(value, at)

    def double(self, token: Token) -> Expression:
        at = token.start_pos or 0
        value = float(token)
        if value == 0:
            raise Misplaced(at, f"{token[:24]} is below 5e-324, the smallest number with a point or an exponent")
        if value == float("inf"):
            raise Misplaced(at, f"{token[:24]} is above 1.7976931348623157e308, the largest number")
        return Double(value, at)

    def true(self, token: Token) -> Expression:
        return Boolean(True, token.start_pos or 0)

    def false(self, token: Token) -> Expression:
        return Boolean(False, token.start_pos or 0)

    def null(self, token: Token) -> Expression:
        return Boolean(None, token.start_pos or 0)

    def property(self, token: Token) -> Expression:
        return Property(str(token), token.start_pos or 0)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _condition(operand: Expression) -> Expression:
    if isinstance(operand, Property):
        return Present(operand, operand.at)
    if isinstance(operand, _VALUES):
        raise Misplaced(operand.at, "a number or a text is no condition; compare it with something")
    return operand


def _check_ordered(operator: str, *operands: Expression) -> None:
    for operand in operands:
        if not isinstance(operand, Property | Integer | Double | Negative):
            what = "a text" if isinstance(operand, Text) else "a condition, TRUE, FALSE or NULL"
            raise Misplaced(operand.at, f"{what} has no order; {operator} takes properties and numbers")


def _above(low: Integer | Double, high: Integer | Double) -> bool:
    if isinstance(low, Integer) and isinstance(high, Integer):
        return low.value > high.value
    return float(low.value) > float(high.value)


def _in(operand: Expression, texts: tuple[Token, ...], negated: bool) -> Expression:
    if not isinstance(operand, Property):
        raise Misplaced(operand.at, "only a property can stand before IN")
    return In(operand, tuple(map(_unquoted, texts)), negated, operand.at)
