"""Keys that JSON does not have: whole objects, and integers.

An integer-keyed table may come with its keys quoted, an object-keyed one with the object's text in quotes; the two
functions below take either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gantrymq.errors import FormatError

__all__ = ["MAX_DEPTH", "MAX_LOOSE_CHARS", "ObjectKey", "int_keys"]

MAX_DEPTH: Final = 128  # nested objects and lists in loose text; strict text may nest as deep as orjson allows (1024)
MAX_LOOSE_CHARS: Final = 2 * 1024 * 1024  # of a text that only the slow reader can read, some 1 us a character


class ObjectKey(Mapping[str, Any]):
    """An object in key position: a mapping that is hashable and never changes.

    Two keys are equal when their members are, in whatever order; `dumps` writes the members in the order given. Lists
    inside become tuples, objects inside become ObjectKeys.
    """

    __slots__ = ("_hash", "_members")

    def __init__(self, members: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        self._members = {name: _freeze(value) for name, value in dict(members).items()}
        self._hash = hash(frozenset(self._members.items()))

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._members == other._members

    def __repr__(self) -> str:
        return f"ObjectKey({self._members!r})"


def int_keys(table: Mapping[Any, Any]) -> dict[int, Any]:
    """Return *table* with its keys as integers, whether they were written quoted or not.

    Raises:
        FormatError: a key is no integer.
    """
    try:
        return {int(key): value for key, value in table.items()}
    except (TypeError, ValueError) as error:
        raise FormatError(f"expected integer keys: {error}") from error


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, ObjectKey) else ObjectKey(value)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
