"""Java's values in an evaluation, and how RocketMQ compares them.

    str     String: properties and texts         int    Integer, 32 bits         bool   Boolean
    Long    Long, 64 bits                        float  Double                   None   null

If the classes differ, a text is parsed as the class of the other side. A Boolean on the left with a text on the right
is an error, and so is a text that cannot be parsed. A Boolean and a number are never equal.

`lookup` finds one property in stored property bytes without parsing the others.

    name 0x01 value 0x02 name 0x01 value 0x02 ...        the last 0x02 may be missing

The result equals that of parsing all: the last of equal names counts, an empty value is absent, and a value may contain
0x01.

Source: apache/rocketmq filter/.../expression/ComparisonExpression.java (__compare); Java's Integer.valueOf,
Long.valueOf, Double.valueOf, Boolean.valueOf, Double.compareTo.
Source: apache/rocketmq common/.../message/MessageDecoder.java (string2messageProperties)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

from gantrymq.errors import GantryError

Value = str | int | float | bool | None  # int: also Long
_WHOLE = re.compile(r"[+-]?\d+")
DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
HEXADECIMAL = r"([+-]?)(0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
JAVA_BLANKS = "".join(map(chr, range(0x21)))
_DECIMAL = re.compile(DECIMAL)
_HEXADECIMAL = re.compile(HEXADECIMAL)
_MANY_DIGITS = 4000  # digits; below the limit of int()
_REMEMBERED = 128  # cached results: an expression may read one long property many times
Lookup = Callable[[bytes], bytes | None]


_NAMED = {sign + name: float(sign + name.lower()) for sign in ("", "+", "-") for name in ("NaN", "Infinity")}


class EvaluationFailed(GantryError):
    """Java raises an exception here; RocketMQ treats the message as not matching."""


class Long(int):
    """A whole number that is a Long in Java, whatever its size."""


@lru_cache(maxsize=_REMEMBERED)
def to_integer(text: str, bits: int) -> int:
    """Parse a whole number of 32 or 64 bits.

    Raises:
        EvaluationFailed: the text is not a number, or out of range.
    """
    if _WHOLE.fullmatch(text) and (text.isascii() or max(text) <= "\uffff"):
        value = int(text) if len(text) <= _MANY_DIGITS else _of_many_digits(text)
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise EvaluationFailed(f"{text[:40]!a} is not a whole number of {bits} bits")


def _of_many_digits(text: str) -> int:
    """Return the number if nearly all of its digits are leading zeros, otherwise one beyond 64 bits."""
    digits = text.lstrip("+-")
    zeros = "".join(digit for digit in set(digits) if int(digit) == 0)
    digits = digits.lstrip(zeros) or "0"
    return int(text[: text.startswith("-")] + digits) if len(digits) <= _MANY_DIGITS else 1 << 64


@lru_cache(maxsize=_REMEMBERED)
def to_double(text: str) -> float:
    """Parse a Double, ignoring surrounding blanks; hexadecimal, NaN and Infinity as Java writes them.

    Raises:
        EvaluationFailed: the text is not a number.
    """
    text = text.strip(JAVA_BLANKS)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if text in _NAMED:
        return _NAMED[text]
    match = _HEXADECIMAL.fullmatch(text)
    if match:
        try:
            value = float.fromhex(match[2])
        except OverflowError:
            value = math.inf
        return -value if match[1] == "-" else value
    raise EvaluationFailed(f"{text[:40]!a} is not a number")


def to_boolean(text: str) -> bool:
    """Return True for ``true`` in any case, False for everything else."""
    return len(text) == 4 and text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """Return a number below, equal to or above 0; NaN is above all and equal to itself, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right and left != 0:
        return 0
    return _rank(left) - _rank(right)


def _rank(number: float) -> int:
    if math.isnan(number):
        return 2
    return 0 if math.copysign(1.0, number) < 0 else 1


def compare(left: Value, right: Value) -> int:
    """Return a number below, equal to or above 0, as Java's ``__compare``; -1 for incomparable values.

    Raises:
        EvaluationFailed: a text cannot be parsed; a Boolean left of a text.
    """
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationFailed("a condition left of a text cannot be compared with it")
        return left - right if isinstance(right, bool) else -1
    if isinstance(right, bool):
        return to_boolean(left) - right if isinstance(left, str) else -1
    if isinstance(left, str):
        if isinstance(right, str):
            return 0 if left == right else 1 if left > right else -1
        left = _as(left, right)
    elif isinstance(right, str):
        right = _as(right, left)
    if isinstance(left, float) or isinstance(right, float):
        return compare_doubles(float(0 if left is None else left), float(0 if right is None else right))
    return (left or 0) - (right or 0)


def _as(text: str, other: Value) -> int | float:
    if isinstance(other, float):
        return to_double(text)
    return to_integer(text, 64 if isinstance(other, Long) else 32)


def lookup(name: str) -> Lookup:
    """Return a function that finds the value of property *name* as stored bytes, or None if it is absent.

    Args:
        name: not empty, without 0x01 and 0x02.
    """
    first = name.encode() + b"\x01"
    later = b"\x02" + first
    from_first, from_later = len(first), len(later)

    def find(properties: bytes) -> bytes | None:
        at = properties.rfind(later)
        if at >= 0:
            start = at + from_later
        elif properties.startswith(first):
            start = from_first
        else:
            return None
        end = properties.find(b"\x02", start)
        value = properties[start:end] if end >= 0 else properties[start:]
        return value or before(properties, at)

    def before(properties: bytes, at: int) -> bytes | None:
        """Return the value before the empty pair at *at*; *at* below 0 means the first pair."""
        while at >= 0:
            end = at + 1
            at = properties.rfind(later, 0, end)
            start = at + from_later if at >= 0 else from_first
            if at < 0 and not properties.startswith(first):
                return None
            value = properties[start : properties.find(b"\x02", start)]
            if value:
                return value
        return None

    return find


def cached_lookup(name: str) -> Lookup:
    """As `lookup`, for a property that is looked up repeatedly in the same bytes."""
    find = lookup(name)
    last: tuple[bytes, bytes | None] = (b"", None)

    def find_again(properties: bytes) -> bytes | None:
        nonlocal last
        known, value = last
        if known is not properties:
            value = find(properties)
            last = (properties, value)
        return value

    return find_again
