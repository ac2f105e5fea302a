"""Tables, data versions and unknown members of config files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.model.data_version import DataVersion

_NUMBERS: Final = {int}
_TEXTS: Final = {str}


def table(members: Mapping[Any, Any], name: str, file: str) -> dict[str, Any]:
    """Return the object *name* of a file, empty if it is missing or null.

    Raises:
        FormatError: it is not an object.
    """
    return as_object(members.get(name), f"{file}: {name}")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return *value* as an object with string keys, the same object if all keys are strings; empty for null.

    Raises:
        FormatError: it is not an object; the message starts with *what*.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{what} holds {value!r:.40} where an object belongs")
    if set(map(type, value)) <= _TEXTS:
        return value
    return {str(key): member for key, member in value.items()}


def as_number(value: Any, what: str) -> int:
    """Return *value*, quoted or not, as a whole number.

    Raises:
        FormatError: it is not a whole number; the message starts with *what*.
    """
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise FormatError(f"{what} holds {value!r:.40} where a whole number belongs") from None


def are_numbers(values: Iterable[Any]) -> bool:
    """Return whether all values are ints, the usual case in large tables."""
    return set(map(type, values)) <= _NUMBERS


def data_version(members: Mapping[Any, Any], file: str) -> DataVersion:
    """Return the dataVersion of a file; zeros if it has none.

    Raises:
        FormatError: a member is not a number.
    """
    stored = table(members, "dataVersion", file)
    numbers = {name: as_number(value, f"{file}: dataVersion.{name}") for name, value in stored.items()}
    return DataVersion.from_json(numbers)


def unknown(members: Mapping[Any, Any], known: Set[str]) -> dict[str, Any]:
    """Return the members that are not in *known*, to be written back unchanged."""
    if members.keys() <= known:
        return {}
    return {str(name): value for name, value in members.items() if name not in known}


def in_order(known: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, sorted by name as fastjson sorts the fields of a class. A known member takes precedence."""
    merged = {**kept, **known}
    return {name: merged[name] for name in sorted(merged)}
