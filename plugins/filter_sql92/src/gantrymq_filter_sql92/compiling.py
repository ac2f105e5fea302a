"""Compiles a tree to closures: each takes property bytes and returns true, false or None for unknown.

Every node becomes one closure over the closures of its operands; constant decisions are made in advance. The common
comparisons of a property with a literal have their own closures over the stored bytes ; the others follow
Java's classes (`values.py`).

A text without U+FFFD and without halves of surrogate pairs is in a decoded property exactly if its UTF-8 is in the
stored bytes, even if those are invalid UTF-8 and partly decode to U+FFFD. Other texts and all other comparisons are
decoded first.

Source: apache/rocketmq filter/.../expression/{Comparison,Logic,Unary,UnaryIn,Property}Expression.java
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.values import Long, Lookup, Value, cached_lookup, compare, lookup, to_double, to_integer

Condition = Callable[[bytes], bool | None]
_ODD = re.compile("[\ufffd\ud800-\udfff]")
_FEW_DIGITS = 9  # a whole number of this many digits always fits 32 bits
_TURNED = {"=": "__eq__", "<>": "__ne__", ">": "__lt__", ">=": "__le__", "<": "__gt__", "<=": "__ge__"}
Operand = Callable[[bytes], Value]


def is_plain_utf8(text: str) -> bool:
    """Return whether the stored bytes suffice to find a text; otherwise the property must be decoded."""
    return _ODD.search(text) is None


def compare_integer(find: Lookup, operator: str, number: int) -> Condition:
    """A property, an operator, and a 32-bit number."""
    holds = getattr(number, _TURNED[operator])

    def compared(properties: bytes) -> bool | None:
        found = find(properties)
        if found is None:
            return None
        if len(found) <= _FEW_DIGITS and found.isdigit():
            answer: bool = holds(int(found))
        else:
            answer = holds(to_integer(found.decode("utf-8", "replace"), 32))
        return answer

    return compared


def equals_text(find: Lookup, text: bytes, negated: bool) -> Condition:
    """A property, ``=`` (with *negated*: ``<>``), and a text."""
    if negated:

        def differs(properties: bytes) -> bool | None:
            found = find(properties)
            return None if found is None else found != text

        return differs

    def equal(properties: bytes) -> bool | None:
        found = find(properties)
        return None if found is None else found == text

    return equal


def one_of(find: Lookup, texts: frozenset[bytes], negated: bool) -> Condition:
    """A property [NOT] IN texts."""

    def is_one(properties: bytes) -> bool | None:
        found = find(properties)
        return None if found is None else (found in texts) is not negated

    return is_one


def contains_text(find: Lookup, operator: str, search: bytes, negated: bool) -> Condition:
    """A property [NOT] CONTAINS, STARTSWITH or ENDSWITH a text that is not empty."""

    def contains(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and (search in found) is not negated

    def starts(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and found.startswith(search) is not negated

    def ends(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and found.endswith(search) is not negated

    return {"CONTAINS": contains, "STARTSWITH": starts, "ENDSWITH": ends}[operator]


def condition(tree: Expression) -> Condition:
    """Return the closure of a condition."""
    return _Compiler(tree).condition(tree)


def operand(tree: Expression) -> Operand:
    """Return the closure of a value, or of a condition used as a value."""
    return _Compiler(tree).operand(tree)


class _Compiler:
    """Compiles one tree; the closures share their property look-ups."""

    def __init__(self, tree: Expression) -> None:
        uses = Counter(node.name for node in nodes.looked_up(tree))
        self._lookups = {name: lookup(name) if count == 1 else cached_lookup(name) for name, count in uses.items()}

    def condition(self, node: Expression) -> Condition:
        match node:
            case nodes.Present(inner):
                return _present(self._lookups[inner.name])
            case nodes.Boolean(constant):
                return lambda properties: constant
            case nodes.Not(inner):
                return _not(self.condition(inner))
            case nodes.And(operands):
                return _and([self.condition(each) for each in operands])
            case nodes.Or(operands):
                return _or([self.condition(each) for each in operands])
            case nodes.Comparison():
                return self._comparison(node)
            case nodes.Between():
                return self.condition(nodes.expanded(node))
            case nodes.In(inner, values, negated):
                return self._in(inner, values, negated)
            case nodes.IsNull(inner, negated):
                return _is_null(self.operand(inner), negated)
            case nodes.TextMatch(inner, operator, search, negated):
                return self._text_match(inner, operator, search, negated)
        raise TypeError(f"{type(node).__name__} is not a condition")

    def operand(self, node: Expression) -> Operand:
        match node:
            case nodes.Property(name):
                return _decoded(self._lookups[name])
            case nodes.Text(value) | nodes.Double(value):
                return lambda properties: value
            case nodes.Integer(value):
                number = Long(value) if node.is_long else value
                return lambda properties: number
            case nodes.Negative(inner):
                return _negative(self.operand(inner))
        return self.condition(node)

    def _comparison(self, node: nodes.Comparison) -> Condition:
        match node:
            case nodes.Comparison(nodes.Property(name), "=" | "<>" as sign, nodes.Text(text)) if is_plain_utf8(text):
                return equals_text(self._lookups[name], text.encode(), sign == "<>")
            case nodes.Comparison(nodes.Property(name), sign, nodes.Integer(is_long=False, value=value)):
                return compare_integer(self._lookups[name], sign, value)
            case nodes.Comparison(nodes.Property(name), sign, nodes.Negative(nodes.Integer(is_long=False, value=n))):
                return compare_integer(self._lookups[name], sign, -n)
        left, right = self.operand(node.left), self.operand(node.right)
        if node.operator == "=":
            return _equal(left, right)
        return _not(_equal(left, right)) if node.operator == "<>" else _ordered(left, node.operator, right)

    def _in(self, inner: nodes.Property, values: tuple[str, ...], negated: bool) -> Condition:
        if all(map(is_plain_utf8, values)):
            return one_of(self._lookups[inner.name], frozenset(value.encode() for value in values), negated)
        return _in(self.operand(inner), frozenset(values), negated)

    def _text_match(self, node: Expression, operator: str, search: str, negated: bool) -> Condition:
        if not search:
            return lambda properties: False
        if isinstance(node, nodes.Property) and is_plain_utf8(search):
            return contains_text(self._lookups[node.name], operator, search.encode(), negated)
        return _text_match(self.operand(node), operator, search, negated)


def _decoded(find: Lookup) -> Operand:
    def text(properties: bytes) -> Value:
        found = find(properties)
        return None if found is None else found.decode("utf-8", "replace")

    return text


def _negative(inner: Operand) -> Operand:
    def negative(properties: bytes) -> Value:
        value = inner(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return negative


def _present(find: Lookup) -> Condition:
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


def _equal(left: Operand, right: Operand) -> Condition:
    def equal(properties: bytes) -> bool | None:
        one, other = left(properties), right(properties)
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


def _ordered(left: Operand, operator: str, right: Operand) -> Condition:
    holds = _HOLDS[operator]

    def ordered(properties: bytes) -> bool | None:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = to_double(one), to_double(other)
        return holds(compare(one, other))

    return ordered


def _in(inner: Operand, values: frozenset[str], negated: bool) -> Condition:
    def is_in(properties: bytes) -> bool | None:
        value = inner(properties)
        return None if value is None else (value in values) is not negated

    return is_in


def _is_null(inner: Operand, negated: bool) -> Condition:
    return lambda properties: (inner(properties) is None) is not negated


def _text_match(inner: Operand, operator: str, search: str, negated: bool) -> Condition:
    def matches(properties: bytes) -> bool | None:
        value = inner(properties)
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
