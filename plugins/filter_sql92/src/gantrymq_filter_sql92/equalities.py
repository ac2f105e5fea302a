"""Equalities required by an expression: pairs of a property and a value, one of which every matching message has.

    a = 'x'                      a has the value x
    a = 'x' AND b = 'y'          either side suffices; the one with fewer pairs is taken
    a = 'x' OR b = 'y'           both pairs, one of which must hold
    a IN ('x', 'y')              both pairs
    a = 1                        a has a value that parses to the number 1: 1, 01, +1, 1.0
    NOT ..., a > 1, a <> 'x'     none

Pairs may pass a message that does not match, but never reject one that does.
"""

from __future__ import annotations

from typing import NamedTuple

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.nodes import Expression

__all__ = ["MOST_NEEDLES", "MOST_PAIRS", "Equality", "needles_of", "required_equalities"]

MOST_PAIRS = 32  # pairs of one expression; an expression with more counts as one without required equalities


MOST_NEEDLES = 8  # search strings of one expression; an expression with more has none


class Equality(NamedTuple):
    """A property and its value."""

    name: str
    value: str | float  # a number equals every text that parses to it


Pairs = frozenset[Equality]


def required_equalities(tree: Expression) -> Pairs | None:
    """Return pairs of which one must hold if *tree* is true; empty if it is never true. None: nothing is required."""
    match tree:
        case nodes.And(operands):
            found = [pairs for each in operands if (pairs := required_equalities(each)) is not None]
            return min(found, key=_looseness, default=None)
        case nodes.Or(operands):
            return _all_of([required_equalities(each) for each in operands])
        case nodes.Comparison(nodes.Property(name), "=", value) | nodes.Comparison(value, "=", nodes.Property(name)):
            return _pair(name, value)
        case nodes.In(nodes.Property(name), values, False):
            return _all_of([_text_pair(name, value) for value in values])
        case nodes.Boolean(True):
            return None
        case nodes.Boolean():
            return frozenset()
    return None


def needles_of(tree: Expression) -> tuple[bytes, ...]:
    """Return byte strings of which the stored properties of each matching message contain one; empty: unknown."""
    needles = {
        f"{name}\x01{value if isinstance(value, str) else ''}".encode()
        for name, value in required_equalities(tree) or ()
    }
    return tuple(sorted(needles)) if len(needles) <= MOST_NEEDLES else ()


def _looseness(pairs: Pairs) -> tuple[int, int]:
    return len(pairs), sum(not isinstance(pair.value, str) for pair in pairs)


def _pair(name: str, value: Expression) -> Pairs | None:
    match value:
        case nodes.Text(text):
            return _text_pair(name, text)
        case nodes.Integer(number) | nodes.Double(number):
            return frozenset({Equality(name, number + 0.0)})
        case nodes.Negative(nodes.Integer(number) | nodes.Double(number)):
            return frozenset({Equality(name, 0.0 - number)})
    return None


def _text_pair(name: str, text: str) -> Pairs | None:
    """Return None if other stored bytes can decode to the same text: invalid UTF-8 decodes to U+FFFD."""
    if "\ufffd" in text or any("\ud800" <= each <= "\udfff" for each in text):
        return None
    return frozenset({Equality(name, text)})


def _all_of(found: list[Pairs | None]) -> Pairs | None:
    pairs: set[Equality] = set()
    for each in found:
        if each is None:
            return None
        pairs |= each
    return frozenset(pairs) if len(pairs) <= MOST_PAIRS else None
