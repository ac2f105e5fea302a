"""Keys beyond strict JSON: integers and objects.

The integer keys of a table may be quoted, and so may the text of object keys; `int_keys` and `reader.object_key` accept
both forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gantrymq.errors import FormatError

MAX_DEPTH: Final = 128  # nesting of objects and lists in non-strict text; orjson allows 1024 in strict text
MAX_LOOSE_VALUES: Final = 2_000_000  # of non-strict text, at 2 us each; a table of queues of 16 MiB has 400,000


_IMMUTABLE: Final = frozenset((str, int, float, bool, type(None)))


class ObjectKey(Mapping[str, Any]):
    """An object in key position: an immutable, hashable mapping.

    Keys are equal if their members are equal, in any order; `dumps` writes the members in the given order. Nested lists
    become tuples, nested objects become ObjectKeys.
    """

    __slots__ = ("_hash", "_members")

    def __init__(self, members: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        self._members = given = dict(members)
        for name, value in given.items():
            if type(value) not in _IMMUTABLE:
                given[name] = _freeze(value)
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
    """Return *table* with its keys, quoted or not, converted to integers.

    Raises:
        FormatError: a key is not an integer.
    """
    try:
        return {int(key): value for key, value in table.items()}
    except (TypeError, ValueError) as error:
        raise FormatError(f"expected integer keys: {error}") from error


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, ObjectKey) else ObjectKey(value)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
