"""Keys of a block filter: one for each value of the property, and one for each number that a value parses to.

= value            the value as stored, one character per byte
# number           by the rules of the evaluator
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from gantrymq_filter_sql92.equalities import required_equalities
from gantrymq_filter_sql92.nodes import Expression
from gantrymq_filter_sql92.values import EvaluationFailed, to_double, to_integer

__all__ = ["RequiredKeys", "keys_of", "required_keys"]


class RequiredKeys(NamedTuple):
    """A property, and keys of which each matching message has one."""

    name: str
    keys: frozenset[str]


def required_keys(tree: Expression) -> RequiredKeys | None:
    """Return the property and the keys that *tree* requires; None if it does not require equalities of one property."""
    pairs = required_equalities(tree)
    names = {pair.name for pair in pairs or ()}
    if not pairs or len(names) != 1:
        return None
    return RequiredKeys(names.pop(), frozenset(_key(pair.value) for pair in pairs))


@lru_cache(maxsize=256)
def keys_of(value: bytes) -> frozenset[str]:
    """Return the keys of a stored value."""
    text = value.decode("utf-8", "replace")
    numbers: set[float] = set()
    with suppress(EvaluationFailed):
        numbers.add(to_double(text) + 0.0)  # 0.0 for -0.0
    with suppress(EvaluationFailed):
        numbers.add(float(to_integer(text, 64)))
    return frozenset(("=" + value.decode("latin-1"), *map(_key, numbers)))


def _key(value: str | float) -> str:
    return "=" + value.encode().decode("latin-1") if isinstance(value, str) else f"#{value!r}"
