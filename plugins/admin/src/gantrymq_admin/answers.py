"""Records from the JSON answers of GantryMQ's own requests: frozen attrs classes with fields named like the members."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, TypeVar

import attrs

__all__ = ["read", "texts"]

Kind = TypeVar("Kind", bound=attrs.AttrsInstance)

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "int | None": (int, NoneType),
    "float": (int, float),
    "float | None": (int, float, NoneType),
    "bool": (bool,),
    "bool | None": (bool, NoneType),
}
"""Annotations of fields, with the types of their JSON values."""


def read(kind: type[Kind], members: Mapping[str, Any], /, **given: Any) -> Kind:
    """Return an object of *kind* with the members that are named like its fields; further members are ignored.

    Args:
        kind: an attrs class in a module with postponed annotations.
        members: the JSON object; members whose field has a default may be missing.
        **given: values of fields that are not plain values.

    Raises:
        KeyError, TypeError: a member is missing, or its value does not fit the annotation of its field.
    """
    values = dict(given)
    for field in attrs.fields(kind):
        if field.name in given or (field.name not in members and field.default is not attrs.NOTHING):
            continue
        value = values[field.name] = members[field.name]
        if not isinstance(value, _KINDS[field.type]):
            raise TypeError(f"{field.name} is {value!r}, not {field.type}")
    return kind(**values)


def texts(found: list[Any]) -> tuple[str, ...]:
    """Return the strings of a JSON list. Raises TypeError if there is anything else."""
    if not all(isinstance(each, str) for each in found):
        raise TypeError(f"{found!r} are not strings only")
    return tuple(found)
