"""Values of pages in JSON.

Field names stay as they are in Python. Numbers that may exceed 2**53 are `Long` and become strings, because JavaScript
reads larger numbers inexactly.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs

Kind = TypeVar("Kind", bound=attrs.AttrsInstance)


class Long(int):
    """A 64-bit number, such as an offset, a count of messages or a size in bytes: a string in JSON."""


class PlainJson(dict[str, Any]):
    """An object that consists of JSON values only, such as a report with thousands of entries."""


def optional_long(number: int | None) -> Long | None:
    """Return *number* as a string in JSON, None for None."""
    return None if number is None else Long(number)


def record_of(kind: type[Kind], source: object, /, **given: Any) -> Kind:
    """Return an object of *kind* with the values of *source*, whose attributes are named like the fields of *kind*.

    Args:
        kind: an attrs class.
        source: the object to read; it may lack fields that are given or have a default.
        **given: values of further fields, or in place of those of *source*.

    Raises:
        TypeError: a field has no value.
    """
    for field in attrs.fields(kind):
        if field.name not in given and hasattr(source, field.name):
            given[field.name] = getattr(source, field.name)
    return kind(**given)


def to_json(value: Any) -> Any:
    """Return *value* as objects, arrays, strings and numbers. Raises TypeError for any other type."""
    if value is None or isinstance(value, bool | PlainJson):
        return value
    if isinstance(value, Long):
        return str(int(value))
    if isinstance(value, enum.Enum):
        return value.name.lower() if isinstance(value, enum.IntEnum) else value.value
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if attrs.has(type(value)):
        return {
            field.name: to_json(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if not field.name.startswith("_") and field.metadata.get("json", True)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
