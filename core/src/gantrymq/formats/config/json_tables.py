"""Shared by the config files: tables, data versions, and members that are kept though we do not know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.model.data_version import DataVersion

_NUMBERS: Final = {int}
_TEXTS: Final = {str}


def table(members: Mapping[Any, Any], name: str, file: str) -> dict[str, Any]:
    """The object *name* of a file, empty where it is missing or null.

    Raises:
        FormatError: it is something else.
    """
    return as_object(members.get(name), f"{file}: {name}")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """*value* as an object with text keys, the same one where it has no others; empty for null.

    Raises:
        FormatError: it is something else; *what* says where.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{what} holds {value!r:.40} where an object belongs")
    if set(map(type, value)) <= _TEXTS:
        return value
    return {str(key): member for key, member in value.items()}


def as_number(value: Any, what: str) -> int:
    """*value* as a whole number, quoted or not.

    Raises:
        FormatError: it is something else; *what* says where.
    """
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise FormatError(f"{what} holds {value!r:.40} where a whole number belongs") from None


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all are whole numbers already, which is what tables of thousands hold."""
    return set(map(type, values)) <= _NUMBERS


def data_version(members: Mapping[Any, Any], file: str) -> DataVersion:
    """The file's dataVersion; zeros where it has none.

    Raises:
        FormatError: a member is not a number.
    """
    stored = table(members, "dataVersion", file)
    numbers = {name: as_number(value, f"{file}: dataVersion.{name}") for name, value in stored.items()}
    return DataVersion.from_json(numbers)


def unknown(members: Mapping[Any, Any], known: Set[str]) -> dict[str, Any]:
    """The members that are not *known*, to be written back as they are."""
    if members.keys() <= known:
        return {}
    return {str(name): value for name, value in members.items() if name not in known}


def in_order(known: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Both together by name, as fastjson orders the fields of a class; a known member wins."""
    merged = {**kept, **known}
    return {name: merged[name] for name in sorted(merged)}
