"""The nodes of an expression's tree: frozen classes, equal if their texts mean the same. Positions are not compared.

    values      Property, Text, Integer, Double, Boolean, Negative
    conditions  Present, Not, And, Or, Comparison, Between, In, IsNull, TextMatch; and Boolean

A condition may be used as a value: ``(a > 1) = TRUE``. Consecutive conditions form one `And` or one `Or`, and are
evaluated in their order.

`ExpressionRefused` has the reason in a sentence, and the position for callers that mark it.

Source: apache/rocketmq filter/.../expression/*.java
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from gantrymq.errors import SubscriptionParseFailed

_SHOWN = 20  # characters on each side of the place


@frozen
class _Node:
    at: int = field(default=0, kw_only=True, eq=False, repr=False)  # position in the text, characters from 0


@frozen
class Property(_Node):
    """A property of the message: its text, or unknown if it is absent."""

    name: str


@frozen
class Text(_Node):
    """A text in quotes."""

    value: str


@frozen
class Integer(_Node):
    """A whole number, 0 to 2**63-1: a Java Integer if it fits 32 bits, otherwise a Long."""

    value: int

    @property
    def is_long(self) -> bool:
        """Whether it is a Long."""
        return self.value >= 2**31


@frozen
class Double(_Node):
    """A number with a point or an exponent: above zero, finite."""

    value: float


@frozen
class Boolean(_Node):
    """TRUE, FALSE, or NULL, which is unknown."""

    value: bool | None


@frozen
class Negative(_Node):
    """A minus sign; unknown before anything but a number."""

    operand: Expression


@frozen
class Present(_Node):
    """A property used as a condition: unknown if it is absent, otherwise false, as in RocketMQ, whatever its value."""

    property: Property


@frozen
class Not(_Node):
    """NOT before a condition; unknown stays unknown."""

    operand: Expression


@frozen
class And(_Node):
    """Two conditions or more: false when one is, otherwise unknown when one is, otherwise true."""

    operands: tuple[Expression, ...]


@frozen
class Or(_Node):
    """Two conditions or more: true when one is, otherwise unknown when one is, otherwise false."""

    operands: tuple[Expression, ...]


@frozen
class Comparison(_Node):
    """``=`` and ``<>`` of anything; ``>``, ``>=``, ``<`` and ``<=`` of properties and numbers."""

    left: Expression
    operator: str
    right: Expression


@frozen
class Between(_Node):
    """``value [NOT] BETWEEN low AND high``: equivalent to two comparisons with AND (with NOT: OR)."""

    value: Expression
    low: Expression
    high: Expression
    negated: bool = False


@frozen
class In(_Node):
    """``property [NOT] IN (texts)``, in the order they were written."""

    property: Property
    values: tuple[str, ...]
    negated: bool = False


@frozen
class IsNull(_Node):
    """``operand IS [NOT] NULL``: never unknown."""

    operand: Expression
    negated: bool = False


@frozen
class TextMatch(_Node):
    """``operand [NOT] CONTAINS, STARTSWITH or ENDSWITH text``: never unknown, false without a property in both forms,
    and false for the empty text."""

    operand: Expression
    operator: str
    search: str
    negated: bool = False


Expression = (
    Property
    | Text
    | Integer
    | Double
    | Boolean
    | Negative
    | Present
    | Not
    | And
    | Or
    | Comparison
    | Between
    | In
    | IsNull
    | TextMatch
)


Number = Integer | Double


def expanded(node: Between) -> And | Or:
    """Return the two comparisons that BETWEEN stands for, joined by AND; with NOT by OR."""
    if node.negated:
        return Or((Comparison(node.value, "<", node.low), Comparison(node.value, ">", node.high)))
    return And((Comparison(node.value, ">=", node.low), Comparison(node.value, "<=", node.high)))


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of *node*, in the order of the text."""
    match node:
        case And(operands) | Or(operands):
            return operands
        case Comparison(left, _, right):
            return (left, right)
        case Between(value, low, high):
            return (value, low, high)
        case Present(inner) | In(inner):
            return (inner,)
        case Negative(operand) | Not(operand) | IsNull(operand) | TextMatch(operand):
            return (operand,)
    return ()


def walk(tree: Expression) -> Iterator[tuple[int, Expression]]:
    """Yield every node with its depth from 1, parents first, in the order of the text; not recursive."""
    waiting = [(1, tree)]
    while waiting:
        level, node = waiting.pop()
        yield level, node
        waiting += [(level + 1, child) for child in reversed(children(node))]


def depth(tree: Expression) -> int:
    """Return the number of nodes on the longest path."""
    return max(level for level, _ in walk(tree))


def looked_up(tree: Expression) -> Iterator[Property]:
    """Yield the properties that are looked up, once per look-up; BETWEEN compares its value twice."""
    for _, node in walk(tree):
        if isinstance(node, Property):
            yield node
        elif isinstance(node, Between) and isinstance(node.value, Property):
            yield node.value


def property_names(tree: Expression) -> tuple[str, ...]:
    """Return the names of the properties that the expression may read, sorted, without duplicates."""
    return tuple(sorted({node.name for _, node in walk(tree) if isinstance(node, Property)}))


class Misplaced(Exception):
    """A problem at a position of the text; becomes `ExpressionRefused` when the text is known."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at = at  # characters from 0
        self.reason = reason


class ExpressionRefused(SubscriptionParseFailed):
    """An expression that RocketMQ rejects too, or one beyond our limits."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        """Reject *text* because of the token at character *at*, counted from 0 (the message counts from 1)."""
        super().__init__(f"SQL92 expression, character {at + 1}: {reason}; {_surroundings(text, at)}")
        self.at = at
        self.reason = reason


def _surroundings(text: str, at: int) -> str:
    """Return the text around the position on one line, as ASCII, with ``>>>`` before the character."""
    start, end = max(0, at - _SHOWN), at + _SHOWN
    before = ("..." if start else "") + text[start:at]
    after = text[at:end] + ("..." if end < len(text) else "")
    return f"{_plain(before)}>>>{_plain(after)}"


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
