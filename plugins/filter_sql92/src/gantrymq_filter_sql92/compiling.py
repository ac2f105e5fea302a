"""From tree to closures: each takes property bytes and gives true, false or None for unknown.

Every node becomes one closure over those of its operands; what can be decided beforehand is. The usual comparisons, a
property with a literal, have closures of their own that work on the stored bytes (`comparing.py`); the others go by
Java's classes (`values.py`).

Source: apache/rocketmq filter/.../expression/{Comparison,Logic,Unary,UnaryIn,Property}Expression.java
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq_filter_sql92.comparing import Condition, has_part, one_of, stored_form, with_integer, with_text
from gantrymq_filter_sql92.property_lookup import lookup
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
from gantrymq_filter_sql92.values import Long, Value, compare, to_double

Operand = Callable[[bytes], Value]

_BITS_31 = 2**31


def condition(node: Expression) -> Condition:
    """The closure of a condition."""
    match node:
        case Present(inner):
            return _present(inner)
        case Boolean(constant):
            return lambda properties: constant
        case Not(inner):
            return _not(condition(inner))
        case And(operands):
            return _and([condition(each) for each in operands])
        case Or(operands):
            return _or([condition(each) for each in operands])
        case Comparison(Property(name), "=" | "<>" as operator, Text(text)) if (
            stored := stored_form(text)
        ) is not None:
            return with_text(lookup(name), stored, operator == "<>")
        case Comparison(Property(name), operator, Integer(value)) if value < _BITS_31:
            return with_integer(lookup(name), operator, value)
        case Comparison(Property(name), operator, Negative(Integer(value))) if value < _BITS_31:
            return with_integer(lookup(name), operator, -value)
        case Comparison(left, "=", right):
            return _equal(left, right)
        case Comparison(left, "<>", right):
            return _not(_equal(left, right))
        case Comparison(left, operator, right):
            return _ordered(left, operator, right)
        case Between(value, low, high, False):
            return _and([condition(Comparison(value, ">=", low)), condition(Comparison(value, "<=", high))])
        case Between(value, low, high, True):
            return _or([condition(Comparison(value, "<", low)), condition(Comparison(value, ">", high))])
        case In(inner, values, negated):
            return _in(inner, values, negated)
        case IsNull(inner, negated):
            return _is_null(inner, negated)
        case TextMatch(inner, operator, search, negated):
            return _text_match(inner, operator, search, negated)
    raise TypeError(f"{type(node).__name__} is no condition")


def operand(node: Expression) -> Operand:
    """The closure of a value, or of a condition that stands as one."""
    match node:
        case Property(name):
            find = lookup(name)

            def text(properties: bytes) -> Value:
                found = find(properties)
                return None if found is None else found.decode("utf-8", "replace")

            return text
        case Text(value) | Double(value):
            return lambda properties: value
        case Integer(value):
            number = value if value < _BITS_31 else Long(value)
            return lambda properties: number
        case Negative(inner):
            return _negative(operand(inner))
    return condition(node)


def _negative(inner: Operand) -> Operand:
    def negative(properties: bytes) -> Value:
        value = inner(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return negative


def _present(inner: Property) -> Condition:
    find = lookup(inner.name)
    return lambda properties: None if find(properties) is None else False


def _not(inner: Condition) -> Condition:
    def negated(properties: bytes) -> bool | None:
        answer = inner(properties)
        return None if answer is None else not answer

    return negated


def _and(inner: list[Condition]) -> Condition:
    def every(properties: bytes) -> bool | None:
        answer: bool | None = True
        for each in inner:
            one = each(properties)
            if one is None:
                answer = None
            elif not one:
                return False
        return answer

    return every


def _or(inner: list[Condition]) -> Condition:
    def some(properties: bytes) -> bool | None:
        answer: bool | None = False
        for each in inner:
            one = each(properties)
            if one:
                return True
            if one is None:
                answer = None
        return answer

    return some


def _equal(left: Expression, right: Expression) -> Condition:
    of_left, of_right = operand(left), operand(right)

    def equal(properties: bytes) -> bool | None:
        one, other = of_left(properties), of_right(properties)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return equal


_HOLDS: dict[str, Callable[[int], bool]] = {
    ">": lambda answer: answer > 0,
    ">=": lambda answer: answer >= 0,
    "<": lambda answer: answer < 0,
    "<=": lambda answer: answer <= 0,
}


def _ordered(left: Expression, operator: str, right: Expression) -> Condition:
    of_left, of_right, holds = operand(left), operand(right), _HOLDS[operator]

    def ordered(properties: bytes) -> bool | None:
        one = of_left(properties)
        if one is None:
            return None
        other = of_right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = to_double(one), to_double(other)
        return holds(compare(one, other))

    return ordered


def _in(inner: Property, values: tuple[str, ...], negated: bool) -> Condition:
    stored = frozenset(map(stored_form, values))
    if None not in stored:
        return one_of(lookup(inner.name), frozenset(filter(None, stored)), negated)
    of_inner, known = operand(inner), frozenset(values)

    def is_in(properties: bytes) -> bool | None:
        value = of_inner(properties)
        return None if value is None else (value in known) is not negated

    return is_in


def _is_null(node: Expression, negated: bool) -> Condition:
    of_node = operand(node)
    return lambda properties: (of_node(properties) is None) is not negated


def _text_match(node: Expression, operator: str, search: str, negated: bool) -> Condition:
    if not search:
        return lambda properties: False
    if isinstance(node, Property) and (stored := stored_form(search)) is not None:
        return has_part(lookup(node.name), operator, stored, negated)
    of_node = operand(node)

    def matches(properties: bytes) -> bool | None:
        value = of_node(properties)
        if not isinstance(value, str):
            return False
        if operator == "CONTAINS":
            found = search in value
        elif operator == "STARTSWITH":
            found = value.startswith(search)
        else:
            found = value.endswith(search)
        return found is not negated

    return matches
