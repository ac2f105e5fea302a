"""SQL92 expressions as columns of Spark, over a map column with the properties of messages.

The answers are the evaluator's: true, false, or null for unknown; where it fails on a message, and the consumer so does
not get it, the column is false. Within, a condition is a number, so that nothing is evaluated twice and nothing raises:

    2 true    1 unknown    0 false    -1 failed

What a value is (a text, a kind of number) is known beforehand: properties and texts are texts. Only this module imports
pyspark; ``pip install 'gantrymq-filter-sql92[spark]'`` brings it.

Source: apache/rocketmq filter/.../expression/*.java, as compiling.py and values.py have it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from gantrymq_filter_sql92.parser import parse
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

__all__ = ["PROPERTIES", "to_column"]

PROPERTIES = "properties"  # the map column of the Spark plugin
TRUE, UNKNOWN, FALSE, FAILED = 2, 1, 0, -1
_BITS_31 = 2**31
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_NUMBER = (
    r"\A(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?\z"
)


class Value(NamedTuple):
    """An operand: its class in Java, and the column that holds it."""

    kind: str  # text, int, long, double, condition (coded), null
    column: Column


class Both(NamedTuple):
    """Two operands; what refers to them does so any number of times."""

    left: Value
    right: Value


def to_column(expression: str | Expression, properties: str = PROPERTIES) -> Column:
    """A column with the answers for the messages whose properties are in the map column *properties*.

    Raises:
        SubscriptionParseFailed: RocketMQ does not take the expression.
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    answers = F.array(F.lit(False), F.lit(False), F.lit(None).cast("boolean"), F.lit(True))
    return F.element_at(answers, _condition(tree, F.col(properties)) + F.lit(2))


def _condition(node: Expression, properties: Column) -> Column:
    """The code of a condition."""
    match node:
        case Present(inner):
            return _chosen(_text(inner, properties).isNull(), UNKNOWN, FALSE)
        case Boolean(constant):
            return F.lit({True: TRUE, False: FALSE, None: UNKNOWN}[constant])
        case Not(inner):
            return _negated(_condition(inner, properties))
        case And(operands):
            return _folded([_condition(each, properties) for each in operands], FALSE, F.least)
        case Or(operands):
            return _folded([_condition(each, properties) for each in operands], TRUE, F.greatest)
        case Comparison(left, "=", right):
            return _with(_value(left, properties), _value(right, properties), _equal)
        case Comparison(left, "<>", right):
            return _negated(_with(_value(left, properties), _value(right, properties), _equal))
        case Comparison(left, operator, right):
            return _with(_value(left, properties), _value(right, properties), lambda both: _ordered(both, operator))
        case Between(value, low, high, False):
            return _condition(And((Comparison(value, ">=", low), Comparison(value, "<=", high))), properties)
        case Between(value, low, high, True):
            return _condition(Or((Comparison(value, "<", low), Comparison(value, ">", high))), properties)
        case In(inner, values, negated):
            found = _text(inner, properties)
            known = found.isin(*values)
            return F.when(found.isNull(), F.lit(UNKNOWN)).otherwise(_chosen(~known if negated else known))
        case IsNull(inner, negated):
            return _is_null(_value(inner, properties), negated)
        case TextMatch(inner, operator, search, negated):
            return _text_match(_value(inner, properties), operator, search, negated)
    raise TypeError(f"{type(node).__name__} is no condition")


def _value(node: Expression, properties: Column) -> Value:
    match node:
        case Property():
            return Value("text", _text(node, properties))
        case Text(value):
            return Value("text", F.lit(value))
        case Integer(value):
            return Value("int" if value < _BITS_31 else "long", F.lit(value).cast("bigint"))
        case Double(value):
            return Value("double", F.lit(value).cast("double"))
        case Negative(inner):
            of_inner = _value(inner, properties)
            if of_inner.kind in ("int", "long", "double"):
                return Value(of_inner.kind, -of_inner.column)
            if of_inner.kind == "condition":  # it may fail
                return Value("condition", _chosen(of_inner.column == FAILED, FAILED, UNKNOWN))
            return Value("null", F.lit(None).cast("string"))
    return Value("condition", _condition(node, properties))


def _text(node: Property, properties: Column) -> Column:
    """The text of a property; an empty one is none."""
    return F.nullif(F.try_element_at(properties, F.lit(node.name)), F.lit(""))


# --- codes ----------------------------------------------------------------------------------------------------------


def _chosen(holds: Column, yes: int = TRUE, no: int = FALSE) -> Column:
    return F.when(holds, F.lit(yes)).otherwise(F.lit(no))


def _negated(code: Column) -> Column:
    return F.element_at(F.array(F.lit(FAILED), F.lit(TRUE), F.lit(UNKNOWN), F.lit(FALSE)), code + F.lit(2))


def _folded(codes: Sequence[Column], decides: int, otherwise: Callable[..., Column]) -> Column:
    """From left to right until one decides or fails; else *otherwise* of all."""

    def step(so_far: Column, code: Column) -> Column:
        ends = (F.lit(decides), F.lit(FAILED))
        return F.when(so_far.isin(*ends), so_far).when(code.isin(*ends), code).otherwise(otherwise(so_far, code))

    return F.aggregate(F.array(*codes), F.lit(FALSE if decides == TRUE else TRUE), step)


def _with(left: Value, right: Value, code: Callable[[Both], Column]) -> Column:
    """*code* of both; conditions, which may be large, are evaluated once."""
    if "condition" not in (left.kind, right.kind):
        return code(Both(left, right))

    def bound(pair: Column) -> Column:
        return code(Both(Value(left.kind, pair["left"]), Value(right.kind, pair["right"])))

    pair = F.struct(left.column.alias("left"), right.column.alias("right"))
    return F.element_at(F.transform(F.array(pair), bound), F.lit(1))


# --- comparing ------------------------------------------------------------------------------------------------------


def _unknown(value: Value) -> Column:
    if value.kind == "condition":
        return value.column == UNKNOWN
    return value.column.isNull() if value.kind in ("text", "null") else F.lit(False)


def _failed(value: Value) -> Column:
    return value.column == FAILED if value.kind == "condition" else F.lit(False)


def _equal(both: Both) -> Column:
    left, right = both
    one_unknown, other_unknown = _unknown(left), _unknown(right)
    return (
        F.when(_failed(left) | _failed(right), F.lit(FAILED))
        .when(one_unknown, _chosen(other_unknown, TRUE, UNKNOWN))
        .when(other_unknown, F.lit(FALSE))
        .otherwise(_holding(_compared(both), lambda answer: answer == 0))
    )


def _ordered(both: Both, operator: str) -> Column:
    left, right = both
    if left.kind == right.kind == "text":
        compared = _compared_doubles(_to_double(left.column), _to_double(right.column))
    else:
        compared = _compared(both)
    holds: dict[str, Callable[[Column], Column]] = {
        ">": lambda answer: answer > 0,
        ">=": lambda answer: answer >= 0,
        "<": lambda answer: answer < 0,
        "<=": lambda answer: answer <= 0,
    }
    return (
        F.when(_failed(left), F.lit(FAILED))
        .when(_unknown(left), F.lit(UNKNOWN))
        .when(_failed(right), F.lit(FAILED))
        .when(_unknown(right), F.lit(UNKNOWN))
        .otherwise(_holding(compared, holds[operator]))
    )


def _holding(compared: Column, holds: Callable[[Column], Column]) -> Column:
    return F.when(compared.isNull(), F.lit(FAILED)).otherwise(_chosen(holds(compared)))


def _compared(both: Both) -> Column:
    """Below 0, 0 or above 0; null where it fails. Neither is unknown nor has failed."""
    left, right = both
    failed = F.lit(None).cast("int")
    if "null" in (left.kind, right.kind):
        return failed  # nobody looks
    if left.kind == "condition":
        if right.kind == "text":
            return failed
        return _signum(left.column, right.column) if right.kind == "condition" else F.lit(-1)
    if right.kind == "condition":
        if left.kind != "text":
            return F.lit(-1)
        return _signum(_chosen(left.column.rlike(r"(?i)\Atrue\z")), right.column)
    if left.kind == right.kind == "text":
        return _signum(left.column, right.column)
    one, other = _number(left, right), _number(right, left)
    return (_compared_doubles if "double" in (left.kind, right.kind) else _signum)(one, other)


def _number(value: Value, beside: Value) -> Column:
    """A text as what stands beside it; null where it is none."""
    if value.kind != "text":
        return value.column
    if beside.kind == "double":
        return _to_double(value.column)
    return _to_integer(value.column, 64 if beside.kind == "long" else 32)


def _signum(one: Column, other: Column) -> Column:
    return F.when(one.isNull() | other.isNull(), None).when(one < other, -1).when(one > other, 1).otherwise(0)


def _compared_doubles(one: Column, other: Column) -> Column:
    """As Java's: -0.0 is below 0.0; NaN is above all and equal to itself in Spark too."""
    one, other = one.cast("double"), other.cast("double")
    same = _signum(one.cast("string") == F.lit("-0.0"), other.cast("string") == F.lit("-0.0"))
    return F.when((one == 0) & (other == 0), -same).otherwise(_signum(one, other))


def _to_double(text: Column) -> Column:
    trimmed = F.btrim(text, F.lit(_JAVA_BLANKS))
    named = trimmed.isin(*(sign + name for sign in ("", "+", "-") for name in ("NaN", "Infinity")))
    plain = F.regexp_replace(F.regexp_replace(trimmed, r"\A[+-](?=NaN)", ""), r"\A\+", "")
    number = F.when(trimmed.rlike(_NUMBER), F.regexp_replace(trimmed, r"[fFdD]\z", ""))
    return F.when(named, plain.try_cast("double")).otherwise(number.try_cast("double"))


def _to_integer(text: Column, bits: int) -> Column:
    digits, zeros = _digits()
    ascii_digits = F.translate(text, digits, zeros)
    short = F.regexp_replace(ascii_digits, r"\A([+-]?)0+(?=[0-9])", "$1")
    number = F.when(short.rlike(r"\A[+-]?[0-9]{1,19}\z"), short).try_cast("bigint")
    return number if bits == 64 else F.when(number.between(-_BITS_31, _BITS_31 - 1), number)


@cache
def _digits() -> tuple[str, str]:
    """Decimal digits of every script that Java's Integer reads, and those of ASCII in their places."""
    others = [char for char in map(chr, range(0x80, 0x10000)) if unicodedata.category(char) == "Nd"]
    return "".join(others), "".join(str(unicodedata.decimal(char)) for char in others)


# --- null and parts of texts ----------------------------------------------------------------------------------------


def _is_null(value: Value, negated: bool) -> Column:
    if value.kind == "condition":
        answers = [FAILED, FALSE, TRUE, FALSE] if not negated else [FAILED, TRUE, FALSE, TRUE]
        return F.element_at(F.array(*map(F.lit, answers)), value.column + F.lit(2))
    unknown = _unknown(value)
    return _chosen(~unknown if negated else unknown)


def _text_match(value: Value, operator: str, search: str, negated: bool) -> Column:
    if not search:
        return F.lit(FALSE)
    if value.kind == "condition":
        return _chosen(value.column == FAILED, FAILED, FALSE)
    if value.kind != "text":
        return F.lit(FALSE)
    matching = {"CONTAINS": F.contains, "STARTSWITH": F.startswith, "ENDSWITH": F.endswith}
    found = matching[operator](value.column, F.lit(search))
    return F.when(value.column.isNull(), F.lit(FALSE)).otherwise(_chosen(~found if negated else found))
