"""What a block's Bloom filter holds: a key for each pair of a property and a value, and for each number it reads as.

    name 0x01 value          the pair, as it is stored
    name 0x02 number         its value reads as this number, by the rules of the evaluator

No stored value holds 0x02, so the two kinds differ. Keys are texts of one character a byte, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from gantrymq_filter_sql92.equalities import Equality
from gantrymq_filter_sql92.values import EvaluationFailed, to_double, to_integer

__all__ = ["key_of", "keys_of", "needle_of", "pairs_in"]


def pairs_in(properties: bytes, names: Iterable[bytes]) -> list[bytes]:
    """The pairs of *names* in stored property bytes, all of equal names too; budget 0.5 us a name."""
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
    """The keys of a pair."""
    name, _, value = pair.partition(b"\x01")
    return [pair.decode("latin-1"), *(_number_key(name, number) for number in _numbers(value))]


def key_of(equality: Equality) -> str:
    """The key that a block with such a pair holds."""
    name, value = equality
    if isinstance(value, str):
        return needle_of(equality).decode("latin-1")
    return _number_key(name.encode(), value)


def needle_of(equality: Equality) -> bytes:
    """Bytes that stand in the properties of each message with such a pair."""
    name, value = equality
    return f"{name}\x01{value if isinstance(value, str) else ''}".encode()


def _number_key(name: bytes, number: float) -> str:
    return f"{name.decode('latin-1')}\x02{number!r}"


def _numbers(value: bytes) -> set[float]:
    """All that a text may read as beside a number: an Integer or a Long, and a Double; 0.0 for -0.0."""
    text = value.decode("utf-8", "replace")
    found: set[float] = set()
    with suppress(EvaluationFailed):
        found.add(to_double(text) + 0.0)
    with suppress(EvaluationFailed):
        found.add(float(to_integer(text, 64)) + 0.0)
    return found
