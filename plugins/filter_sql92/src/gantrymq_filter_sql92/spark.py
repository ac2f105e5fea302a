"""SQL92 expressions as Spark columns, over a map column with the properties of messages.

Results are those of the evaluator: true, false, or null for unknown. If evaluation fails for a message, so that a
consumer does not receive it, the column is false. Internally a condition is a code, so that no part is evaluated twice
and nothing raises:

    2 true    1 unknown    0 false    null failed

so ``2 - code`` is NOT, and a result computed from a failure is a failure. The Java class of each value is known in
advance: properties and texts are texts. Only this module imports pyspark, which
``pip install './plugins/filter_sql92[spark]'`` brings.

Source: apache/rocketmq filter/.../expression/*.java, as implemented in compiling.py and values.py.
"""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sql

from gantrymq_filter_sql92 import nodes
from gantrymq_filter_sql92.expression import parse
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.values import DECIMAL, HEXADECIMAL, JAVA_BLANKS

_PROPERTIES = "properties"  # the map column of the Spark plugin
_TRUE, _UNKNOWN, _FALSE = 2, 1, 0
_NUMBER = rf"\A(?:{DECIMAL}|{HEXADECIMAL})\z"
_OPERATORS: dict[str, Callable[[Column, Column], Column]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class Value(NamedTuple):
    """An operand: its class in Java, and its column."""

    kind: str  # text, int, long, double, condition (coded), null
    column: Column
    known: bool = False  # a literal, never unknown


def to_column(expression: str | Expression, properties: str = _PROPERTIES) -> Column:
    """Return a column with the results for messages with their properties in the map column *properties*.

    Raises:
        SubscriptionParseFailed: RocketMQ rejects the expression.
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    answers = sql.array(sql.lit(False), sql.lit(None).cast("boolean"), sql.lit(True))
    return sql.element_at(answers, sql.coalesce(_condition(tree, sql.col(properties)), sql.lit(_FALSE)) + 1)


def _condition(node: Expression, properties: Column) -> Column:
    """Return the code of a condition."""
    match node:
        case nodes.Present(inner):
            return _text(inner, properties).isNull().cast("int") * _UNKNOWN
        case nodes.Boolean(constant):
            return sql.lit({True: _TRUE, False: _FALSE, None: _UNKNOWN}[constant])
        case nodes.Not(inner):
            return 2 - _condition(inner, properties)
        case nodes.And(operands):
            return _folded([_condition(each, properties) for each in operands], _FALSE, sql.least)
        case nodes.Or(operands):
            return _folded([_condition(each, properties) for each in operands], _TRUE, sql.greatest)
        case nodes.Comparison(left, "=", right):
            return _with(_value(left, properties), _value(right, properties), _equal)
        case nodes.Comparison(left, "<>", right):
            return 2 - _condition(nodes.Comparison(left, "=", right), properties)
        case nodes.Comparison(left, sign, right):
            values = _value(left, properties), _value(right, properties)
            return _with(*values, lambda one, other: _ordered(one, sign, other))
        case nodes.Between():
            return _condition(nodes.expanded(node), properties)
        case nodes.In(inner, values, negated):
            found = _text(inner, properties).isin(*values)  # null if the property is absent
            return sql.coalesce(_code(~found if negated else found), sql.lit(_UNKNOWN))
        case nodes.IsNull(inner, negated):
            unknown = _unknown(_value(inner, properties))
            return _code(~unknown if negated else unknown)
        case nodes.TextMatch(inner, sign, search, negated):
            return _text_match(_value(inner, properties), sign, search, negated)
    raise TypeError(f"{type(node).__name__} is not a condition")


def _value(node: Expression, properties: Column) -> Value:
    match node:
        case nodes.Property():
            return Value("text", _text(node, properties))
        case nodes.Text(value):
            return Value("text", sql.lit(value), known=True)
        case nodes.Integer(value):
            return Value("long" if node.is_long else "int", sql.lit(value).cast("bigint"), known=True)
        case nodes.Double(value):
            return Value("double", sql.lit(value).cast("double"), known=True)
        case nodes.Negative(inner):
            of_inner = _value(inner, properties)
            if of_inner.kind in ("int", "long", "double"):
                return Value(of_inner.kind, -of_inner.column, known=True)
            if of_inner.kind == "condition":  # may fail
                return Value("condition", of_inner.column * 0 + _UNKNOWN)
            return Value("null", sql.lit(None).cast("string"))
    return Value("condition", _condition(node, properties))


def _text(node: nodes.Property, properties: Column) -> Column:
    """Return the text of a property; an empty one is absent."""
    return sql.nullif(sql.try_element_at(properties, sql.lit(node.name)), sql.lit(""))


# --- codes ----------------------------------------------------------------------------------------------------------


def _code(holds: Column) -> Column:
    """Return the code of a boolean column, null for failed."""
    return holds.cast("int") * _TRUE


def _folded(codes: Sequence[Column], decides: int, otherwise: Callable[..., Column]) -> Column:
    """Evaluate from left to right until one decides or fails; otherwise return *otherwise* of all."""

    def step(so_far: Column, code: Column) -> Column:
        ended = so_far.isNull() | (so_far == decides)
        return sql.when(ended | code.isNull(), sql.when(ended, so_far)).otherwise(otherwise(so_far, code))

    return sql.aggregate(sql.array(*codes), sql.lit(_TRUE - decides), step)


def _with(left: Value, right: Value, code: Callable[[Value, Value], Column]) -> Column:
    """Return *code* of both, which may refer to them repeatedly: conditions are evaluated only once."""
    if left.kind == "condition":
        return _let(left.column, lambda held: _with_right(left._replace(column=held), right, code))
    return _with_right(left, right, code)


def _with_right(left: Value, right: Value, code: Callable[[Value, Value], Column]) -> Column:
    if right.kind == "condition":
        return _let(right.column, lambda held: code(left, right._replace(column=held)))
    return code(left, right)


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return *use* of *value*, evaluated once however often it is used."""
    return sql.element_at(sql.transform(sql.array(value), use), 1)


# --- comparing ------------------------------------------------------------------------------------------------------


def _unknown(value: Value) -> Column:
    """Return whether a value is present; null if a condition has failed."""
    if value.known:
        return sql.lit(False)
    return value.column == _UNKNOWN if value.kind == "condition" else value.column.isNull()


def _failed(value: Value) -> Column:
    return value.column.isNull() if value.kind == "condition" else sql.lit(False)


def _equal(left: Value, right: Value) -> Column:
    unknown = sql.when(_unknown(right), _TRUE).otherwise(_UNKNOWN)
    known = sql.when(_unknown(right), _FALSE).otherwise(_code(_holds(left, "=", right)))
    return sql.when(~(_failed(left) | _failed(right)), sql.when(_unknown(left), unknown).otherwise(known))


def _ordered(left: Value, sign: str, right: Value) -> Column:
    """The right side is not evaluated if the left side is unknown."""
    known = sql.when(_unknown(right), _UNKNOWN).when(~_failed(right), _code(_holds(left, sign, right)))
    return sql.when(_unknown(left), _UNKNOWN).when(~_failed(left), known)


def _holds(left: Value, sign: str, right: Value) -> Column:
    """Null if the comparison fails. Neither side is unknown or failed."""
    holds = _OPERATORS[sign]
    kinds = (left.kind, right.kind)
    if "null" in kinds or kinds == ("condition", "text"):
        return sql.lit(None).cast("boolean")
    if kinds == ("text", "condition"):
        return holds(_code(left.column.rlike(r"(?i)\Atrue\z")), right.column)
    if kinds == ("condition", "condition"):
        return holds(left.column, right.column)
    if "condition" in kinds:
        return sql.lit(False)  # compared with a number
    if kinds == ("text", "text"):
        return holds(left.column, right.column) if sign == "=" else holds(_ranked(left.column), _ranked(right.column))
    return holds(_number(left, right), _number(right, left))


def _ranked(text: Column) -> Column:
    """Return a text as a double in Java's order: -0.0 is below 0.0, and NaN is above all, as in Spark."""
    return _let(
        _to_double(text), lambda each: sql.when(each.isNotNull(), sql.struct(each, each.cast("string") != "-0.0"))
    )


def _number(value: Value, beside: Value) -> Column:
    """Return a number, or a text parsed as the other side's class; null if that fails. A double literal is not zero."""
    if value.kind != "text":
        return value.column
    if beside.kind == "double":
        return _to_double(value.column)
    return _to_integer(value.column, 64 if beside.kind == "long" else 32)


def _to_double(text: Column) -> Column:

    def read(trimmed: Column) -> Column:
        named = trimmed.rlike(r"\A[+-]?(?:NaN|Infinity)\z")
        plain = sql.regexp_replace(trimmed, r"\A(?:[+-](?=NaN)|\+)", "")
        number = sql.when(trimmed.rlike(_NUMBER), sql.regexp_replace(trimmed, r"[fFdD]\z", ""))
        return sql.when(named, plain).otherwise(number).try_cast("double")

    return _let(sql.btrim(text, sql.lit(JAVA_BLANKS)), read)


def _to_integer(text: Column, bits: int) -> Column:
    digits, zeros = _digits()
    ascii_digits = sql.translate(text, digits, zeros)
    short = sql.regexp_replace(ascii_digits, r"\A([+-]?)0+(?=[0-9])", "$1")
    number = sql.regexp_extract(short, r"\A([+-]?[0-9]{1,19})\z", 1).try_cast("bigint")
    if bits == 64:
        return number
    return number.try_cast("int")


@cache
def _digits() -> tuple[str, str]:
    """Decimal digits of every script accepted by Java's Integer, and the ASCII digits for them."""
    others = [char for char in map(chr, range(0x80, 0x10000)) if unicodedata.category(char) == "Nd"]
    return "".join(others), "".join(str(unicodedata.decimal(char)) for char in others)


# --- parts of texts -------------------------------------------------------------------------------------------------


def _text_match(value: Value, sign: str, search: str, negated: bool) -> Column:
    if not search:
        return sql.lit(_FALSE)
    if value.kind == "condition":
        return value.column * 0  # may fail
    if value.kind != "text":
        return sql.lit(_FALSE)
    matching = {"CONTAINS": sql.contains, "STARTSWITH": sql.startswith, "ENDSWITH": sql.endswith}
    found = matching[sign](value.column, sql.lit(search))
    return sql.coalesce(_code(~found if negated else found), sql.lit(_FALSE))
