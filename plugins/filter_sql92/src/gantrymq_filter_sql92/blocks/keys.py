"""Keys of a block's Bloom filter: one per pair of property and value, and one per number the value parses to.

    name 0x01 value          the pair, as stored
    name 0x02 number         the value parses to this number, by the rules of the evaluator

No stored value contains 0x02, so the two kinds differ. Keys are texts with one character per byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from gantrymq_filter_sql92.equalities import Equality
from gantrymq_filter_sql92.values import EvaluationFailed, to_double, to_integer

__all__ = ["key_of", "keys_of", "needle_of", "pairs_in"]


def pairs_in(properties: bytes, names: Iterable[bytes]) -> list[bytes]:
    """Return the pairs of *names* in stored property bytes, with all pairs of equal names; budget 0.5 us a name."""
    found: list[bytes] = []
    text = b"\x02" + properties
    for name in names:
        mark = b"\x02" + name + b"\x01"
        at = text.find(mark)
        while at >= 0:
            end = text.find(b"\x02", at + len(mark))
            found.append(text[at + 1 : end] if end >= 0 else text[at + 1 :])
            at = text.find(mark, at + len(mark) - 1)
    return found


def keys_of(pair: bytes) -> list[str]:
    """Return the keys of a pair."""
    name, _, value = pair.partition(b"\x01")
    return [pair.decode("latin-1"), *(_number_key(name, number) for number in _numbers(value))]


def key_of(equality: Equality) -> str:
    """Return the key contained in every block with such a pair."""
    name, value = equality
    if isinstance(value, str):
        return needle_of(equality).decode("latin-1")
    return _number_key(name.encode(), value)


def needle_of(equality: Equality) -> bytes:
    """Return bytes contained in the properties of each message with such a pair."""
    name, value = equality
    return f"{name}\x01{value if isinstance(value, str) else ''}".encode()


def _number_key(name: bytes, number: float) -> str:
    return f"{name.decode('latin-1')}\x02{number!r}"


def _numbers(value: bytes) -> set[float]:
    """Return the numbers a text can parse to in a comparison: an Integer or a Long, and a Double; 0.0 for -0.0."""
    text = value.decode("utf-8", "replace")
    found: set[float] = set()
    with suppress(EvaluationFailed):
        found.add(to_double(text) + 0.0)
    with suppress(EvaluationFailed):
        found.add(float(to_integer(text, 64)) + 0.0)
    return found
