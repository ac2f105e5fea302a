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
from pyspark.sql import functions as sql

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
    answers = sql.array(sql.lit(False), sql.lit(False), sql.lit(None).cast("boolean"), sql.lit(True))
    return sql.element_at(answers, _condition(tree, sql.col(properties)) + sql.lit(2))


def _condition(node: Expression, properties: Column) -> Column:
    """The code of a condition."""
    match node:
        case Present(inner):
            return _chosen(_text(inner, properties).isNull(), UNKNOWN, FALSE)
        case Boolean(constant):
            return sql.lit({True: TRUE, False: FALSE, None: UNKNOWN}[constant])
        case Not(inner):
            return _negated(_condition(inner, properties))
        case And(operands):
            return _folded([_condition(each, properties) for each in operands], FALSE, sql.least)
        case Or(operands):
            return _folded([_condition(each, properties) for each in operands], TRUE, sql.greatest)
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
            return sql.when(found.isNull(), sql.lit(UNKNOWN)).otherwise(_chosen(~known if negated else known))
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
            return Value("text", sql.lit(value))
        case Integer(value):
            return Value("int" if value < _BITS_31 else "long", sql.lit(value).cast("bigint"))
        case Double(value):
            return Value("double", sql.lit(value).cast("double"))
        case Negative(inner):
            of_inner = _value(inner, properties)
            if of_inner.kind in ("int", "long", "double"):
                return Value(of_inner.kind, -of_inner.column)
            if of_inner.kind == "condition":  # it may fail
                return Value("condition", _chosen(of_inner.column == FAILED, FAILED, UNKNOWN))
            return Value("null", sql.lit(None).cast("string"))
    return Value("condition", _condition(node, properties))


def _text(node: Property, properties: Column) -> Column:
    """The text of a property; an empty one is none."""
    return sql.nullif(sql.try_element_at(properties, sql.lit(node.name)), sql.lit(""))


# --- codes ----------------------------------------------------------------------------------------------------------


def _chosen(holds: Column, yes: int = TRUE, no: int = FALSE) -> Column:
    return sql.when(holds, sql.lit(yes)).otherwise(sql.lit(no))


def _negated(code: Column) -> Column:
    return sql.element_at(
        sql.array(sql.lit(FAILED), sql.lit(TRUE), sql.lit(UNKNOWN), sql.lit(FALSE)), code + sql.lit(2)
    )


def _folded(codes: Sequence[Column], decides: int, otherwise: Callable[..., Column]) -> Column:
    """From left to right until one decides or fails; else *otherwise* of all."""

    def step(so_far: Column, code: Column) -> Column:
        ends = (sql.lit(decides), sql.lit(FAILED))
        return sql.when(so_far.isin(*ends), so_far).when(code.isin(*ends), code).otherwise(otherwise(so_far, code))

    return sql.aggregate(sql.array(*codes), sql.lit(FALSE if decides == TRUE else TRUE), step)


def _with(left: Value, right: Value, code: Callable[[Both], Column]) -> Column:
    """*code* of both."""
    return _let2(
        left.column,
        right.column,
        lambda one, other: code(Both(Value(left.kind, one), Value(right.kind, other))),
    )


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """*use* of *value*, which is evaluated once however often it is referred to."""
    return sql.element_at(sql.transform(sql.array(value), use), sql.lit(1))


def _let2(one: Column, other: Column, use: Callable[[Column, Column], Column]) -> Column:
    pair = sql.struct(one.alias("one"), other.alias("other"))
    return _let(pair, lambda both: use(both["one"], both["other"]))


# --- comparing ------------------------------------------------------------------------------------------------------


def _unknown(value: Value) -> Column:
    if value.kind == "condition":
        return value.column == UNKNOWN
    return value.column.isNull() if value.kind in ("text", "null") else sql.lit(False)


def _failed(value: Value) -> Column:
    return value.column == FAILED if value.kind == "condition" else sql.lit(False)


def _equal(both: Both) -> Column:
    left, right = both
    one_unknown, other_unknown = _unknown(left), _unknown(right)
    return (
        sql.when(_failed(left) | _failed(right), sql.lit(FAILED))
        .when(one_unknown, _chosen(other_unknown, TRUE, UNKNOWN))
        .when(other_unknown, sql.lit(FALSE))
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
        sql.when(_failed(left), sql.lit(FAILED))
        .when(_unknown(left), sql.lit(UNKNOWN))
        .when(_failed(right), sql.lit(FAILED))
        .when(_unknown(right), sql.lit(UNKNOWN))
        .otherwise(_holding(compared, holds[operator]))
    )


def _holding(compared: Column, holds: Callable[[Column], Column]) -> Column:
    return _let(compared, lambda answer: sql.when(answer.isNull(), sql.lit(FAILED)).otherwise(_chosen(holds(answer))))


def _compared(both: Both) -> Column:
    """Below 0, 0 or above 0; null where it fails. Neither is unknown nor has failed."""
    left, right = both
    failed = sql.lit(None).cast("int")
    if "null" in (left.kind, right.kind):
        return failed  # nobody looks
    if left.kind == "condition":
        if right.kind == "text":
            return failed
        return _signum(left.column, right.column) if right.kind == "condition" else sql.lit(-1)
    if right.kind == "condition":
        if left.kind != "text":
            return sql.lit(-1)
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
    return _let2(one, other, _sign)


def _sign(one: Column, other: Column) -> Column:
    return sql.when(one.isNull() | other.isNull(), None).when(one < other, -1).when(one > other, 1).otherwise(0)


def _compared_doubles(one: Column, other: Column) -> Column:
    """As Java's: -0.0 is below 0.0; NaN is above all and equal to itself in Spark too."""

    def compared(one: Column, other: Column) -> Column:
        below = sql.lit("-0.0")
        zeros = _sign(one.cast("string") != below, other.cast("string") != below)
        return sql.when((one == 0) & (other == 0), zeros).otherwise(_sign(one, other))

    return _let2(one.cast("double"), other.cast("double"), compared)


def _to_double(text: Column) -> Column:

    def read(trimmed: Column) -> Column:
        named = trimmed.rlike(r"\A[+-]?(?:NaN|Infinity)\z")
        plain = sql.regexp_replace(trimmed, r"\A(?:[+-](?=NaN)|\+)", "")
        number = sql.when(trimmed.rlike(_NUMBER), sql.regexp_replace(trimmed, r"[fFdD]\z", ""))
        return sql.when(named, plain.try_cast("double")).otherwise(number.try_cast("double"))

    return _let(sql.btrim(text, sql.lit(_JAVA_BLANKS)), read)


def _to_integer(text: Column, bits: int) -> Column:
    digits, zeros = _digits()
    ascii_digits = sql.translate(text, digits, zeros)
    short = sql.regexp_replace(ascii_digits, r"\A([+-]?)0+(?=[0-9])", "$1")
    number = _let(short, lambda each: sql.when(each.rlike(r"\A[+-]?[0-9]{1,19}\z"), each).try_cast("bigint"))
    if bits == 64:
        return number
    return _let(number, lambda each: sql.when(each.between(-_BITS_31, _BITS_31 - 1), each))


@cache
def _digits() -> tuple[str, str]:
    """Decimal digits of every script that Java's Integer reads, and those of ASCII in their places."""
    others = [char for char in map(chr, range(0x80, 0x10000)) if unicodedata.category(char) == "Nd"]
    return "".join(others), "".join(str(unicodedata.decimal(char)) for char in others)


# --- null and parts of texts ----------------------------------------------------------------------------------------


def _is_null(value: Value, negated: bool) -> Column:
    if value.kind == "condition":
        answers = [FAILED, FALSE, TRUE, FALSE] if not negated else [FAILED, TRUE, FALSE, TRUE]
        return sql.element_at(sql.array(*map(sql.lit, answers)), value.column + sql.lit(2))
    unknown = _unknown(value)
    return _chosen(~unknown if negated else unknown)


def _text_match(value: Value, operator: str, search: str, negated: bool) -> Column:
    if not search:
        return sql.lit(FALSE)
    if value.kind == "condition":
        return _chosen(value.column == FAILED, FAILED, FALSE)
    if value.kind != "text":
        return sql.lit(FALSE)
    matching = {"CONTAINS": sql.contains, "STARTSWITH": sql.startswith, "ENDSWITH": sql.endswith}
    found = matching[operator](value.column, sql.lit(search))
    return sql.when(value.column.isNull(), sql.lit(FALSE)).otherwise(_chosen(~found if negated else found))
