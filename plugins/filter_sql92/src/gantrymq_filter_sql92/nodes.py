"""The nodes of an expression's tree: frozen classes, equal if their texts mean the same. Positions are not compared.

    values      Property, Text, Integer, Double, Boolean, Negative
    conditions  Present, Not, And, Or, Comparison, Between, In, IsNull, TextMatch; and Boolean

A condition may be used as a value: ``(a > 1) = TRUE``. Consecutive conditions form one `And` or one `Or`, and are
evaluated in their order.

Source: apache/rocketmq filter/.../expression/*.java
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

__all__ = [
    "And",
    "Between",
    "Boolean",
    "Comparison",
    "Double",
    "Expression",
    "In",
    "Integer",
    "IsNull",
    "Negative",
    "Not",
    "Number",
    "Or",
    "Present",
    "Property",
    "Text",
    "TextMatch",
    "children",
    "depth",
    "expanded",
    "looked_up",
    "property_names",
    "walk",
]


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
