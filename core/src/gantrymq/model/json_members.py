"""Typed access to members of JSON objects from peers and config files.

Each function takes the object, the name of the member and a default for a missing or null member; without a default the
member is required. As in fastjson, a number may be given as a string of digits, a string as a number, and a flag as
``"true"`` or ``"false"``.

Source of the conversions: com.alibaba:fastjson 1.2.83 TypeUtils.java (castToInt, castToLong, castToBoolean).
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from gantrymq.errors import FormatError

INT32: Final = (-(2**31), 2**31 - 1)
MAX_ENTRIES: Final = 10_000  # entries of a list
INT64: Final = (-(2**63), 2**63 - 1)
COUNT: Final = (0, INT32[1])
COUNT64: Final = (0, INT64[1])

_DIGITS: Final = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}
_REQUIRED: Final[Any] = object()

Default = TypeVar("Default")


def text_in(members: dict[Any, Any], name: str, default: Default | str = _REQUIRED) -> Default | str:
    """Return a string. Raises FormatError if it is missing, a list or an object."""
    found = members.get(name)
    if type(found) is str:
        return found
    if found is None and default is not _REQUIRED:
        return default
    if type(found) is int or type(found) is float:
        return str(found)
    raise _unexpected(name, found, "a text")


def number_in(
    members: dict[Any, Any], name: str, default: Default | int = _REQUIRED, bounds: tuple[int, int] = INT32
) -> Default | int:
    """Return a whole number within *bounds*, inclusive. Raises FormatError if it is missing or invalid."""
    found = members.get(name)
    if found in (None, "") and default is not _REQUIRED:
        return default
    number = whole_number(found)
    if number is None:
        raise _unexpected(name, found, f"a whole number from {bounds[0]} to {bounds[1]}")
    if not bounds[0] <= number <= bounds[1]:
        raise FormatError(f"{name} {quote_value(number)} is not between {bounds[0]} and {bounds[1]}")
    return number


def flag_in(members: dict[Any, Any], name: str, default: bool = _REQUIRED) -> bool:
    """Return a flag. Raises FormatError if it is missing or invalid."""
    found = members.get(name)
    if type(found) is bool:
        return found
    if found in (None, "") and default is not _REQUIRED:
        return default
    flag = _FLAGS.get(str(found).lower()) if type(found) in (str, int) else None
    if flag is None:
        raise _unexpected(name, found, "true or false")
    return flag


def object_in(members: dict[Any, Any], name: str) -> dict[Any, Any] | None:
    """Return an object, None if it is missing or null. Raises FormatError for other values."""
    found = members.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise FormatError(f"{name} is {quote_value(found)}, a JSON object was expected")


def objects_in(members: dict[Any, Any], name: str) -> list[dict[Any, Any]]:
    """Return a list of objects, empty if it is missing or null. Raises FormatError for other values."""
    found = members.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise FormatError(f"{name} is {quote_value(found)}, a list of JSON objects was expected")
    _check_length(found, name)
    for each in found:
        if not isinstance(each, dict):
            raise FormatError(f"{name} holds {quote_value(each)}, where a JSON object was expected")
    return found


def texts_in(members: dict[Any, Any], name: str) -> tuple[str, ...]:
    """Return a list of strings, empty if it is missing or null. Raises FormatError for other values."""
    found = members.get(name) or []
    if not isinstance(found, list):
        raise _unexpected(name, found, "a list of texts")
    _check_length(found, name)
    return tuple(text_in({name: each}, name) for each in found)


def numbers_in(members: dict[Any, Any], name: str, bounds: tuple[int, int] = INT32) -> tuple[int, ...]:
    """Return a list of whole numbers within *bounds*, empty if it is missing or null.

    Raises:
        FormatError: it is another value.
    """
    found = members.get(name) or []
    if not isinstance(found, list):
        raise _unexpected(name, found, "a list of whole numbers")
    _check_length(found, name)
    return tuple(number_in({name: each}, name, bounds=bounds) for each in found)


def whole_number(value: Any) -> int | None:
    """Return a whole number, or a string of digits, as an int; None for other values, such as ``1_0`` or true."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)  # orjson returns integers over 64 bits as floats
    if type(value) is not str:
        return None
    plain = value.isascii() and value.isdecimal() and len(value) < 20
    return int(value) if plain or _DIGITS.fullmatch(value) else None


def quote_value(value: Any) -> str:
    """Return the start of *value* for an error message."""
    if isinstance(value, dict | list) and len(value) > 10:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} members"
    return str(value)[:40]


def _check_length(found: list[Any], name: str) -> None:
    if len(found) > MAX_ENTRIES:
        raise FormatError(f"{name} has {len(found)} entries, at most {MAX_ENTRIES} are allowed")


def _unexpected(name: str, found: Any, expected: str) -> FormatError:
    if found is None:
        return FormatError(f"{name} is missing or null, {expected} was expected")
    return FormatError(
        f"{name} is {quote_value(repr(found) if type(found) is str else found)}, {expected} was expected"
    )
