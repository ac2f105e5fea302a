"""Checks of the types of arguments, so that a value of another type raises a `ClientError` and no bare TypeError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq.errors import InvalidParameter

_SHOWN: Final = 100  # characters of a value in an error


def shown(value: object) -> str:
    """Return the repr of *value*, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_text(name: str, value: object) -> None:
    """Raise InvalidParameter if *value*, of the argument *name*, is not a str."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} is {shown(value)}; expected a text")


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise InvalidParameter if *value*, of the argument *name*, is not an instance of the class *kind*."""
    if not isinstance(value, kind):
        raise InvalidParameter(f"{name} is {shown(value)}; expected a {kind.__name__}")


def check_mapping(name: str, value: object) -> None:
    """Raise InvalidParameter if *value*, of the argument *name*, is not a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"{name} is {shown(value)}; expected a dict")


def check_number(
    name: str, value: Any, least: float = -math.inf, most: float = math.inf, *, whole: bool = False
) -> None:
    """Raise InvalidParameter if *value*, of the argument *name*, is not a number from *least* to *most*.

    Numbers of other libraries, such as NumPy's, are accepted if they can be added to a float, which a Decimal cannot;
    with *whole* only if they can be an index.
    """
    try:
        legal = not isinstance(value, bool) and least <= value + 0.0 <= most
    except (OverflowError, TypeError):  # an int beyond floats; not a number, or not comparable with numbers
        legal = False
    if not legal or (whole and not hasattr(value, "__index__")):
        bounds = f"{least:g} to {most:g}" if most < math.inf else f"{least:g} or more" if least > -math.inf else ""
        of_kind = bounds and not isinstance(value, bool) and isinstance(value, int if whole else int | float)
        kind = "" if of_kind else "a whole number" if whole else "an int or a float"
        raise InvalidParameter(f"{name} is {shown(value)}; expected {', '.join(filter(None, (kind, bounds)))}")


def check_seconds(value: Any) -> None:
    """Raise InvalidParameter if *value*, of the argument ``timeout_s``, is not a number; any number is a time limit."""
    if type(value) is not float or value != value:  # the usual value passes fast
        check_number("timeout_s", value)


def number_from(least: float, most: float = math.inf) -> Any:
    """Return a validator of an attrs field: `check_number`, with whole numbers for a field that is annotated int."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        check_number(field.name, value, least, most, whole=str(field.type).startswith("int"))

    return check
