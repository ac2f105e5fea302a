"""Closures for the most common comparisons: a property and a literal, compared on the stored bytes.

A text without U+FFFD and without halves of surrogate pairs is in a decoded property exactly if its UTF-8 is in the
stored bytes, even if those are invalid UTF-8 and partly decode to U+FFFD. Other texts and all other comparisons are
left to `compiling.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gantrymq_filter_sql92.property_lookup import Lookup
from gantrymq_filter_sql92.values import to_integer

Condition = Callable[[bytes], bool | None]

_ODD = re.compile("[\ufffd\ud800-\udfff]")
_FEW_DIGITS = 9  # a whole number of this many digits always fits 32 bits
_TURNED = {"=": "__eq__", "<>": "__ne__", ">": "__lt__", ">=": "__le__", "<": "__gt__", "<=": "__ge__"}


def is_plain_utf8(text: str) -> bool:
    """Return whether the stored bytes suffice to find a text; otherwise the property must be decoded."""
    return _ODD.search(text) is None


def compare_integer(find: Lookup, operator: str, number: int) -> Condition:
    """A property, an operator, and a 32-bit number."""
    holds = getattr(number, _TURNED[operator])

    def compared(properties: bytes) -> bool | None:
        found = find(properties)
        if found is None:
            return None
        if len(found) <= _FEW_DIGITS and found.isdigit():
            answer: bool = holds(int(found))
        else:
            answer = holds(to_integer(found.decode("utf-8", "replace"), 32))
        return answer

    return compared


def equals_text(find: Lookup, text: bytes, negated: bool) -> Condition:
    """A property, ``=`` (with *negated*: ``<>``), and a text."""
    if negated:

        def differs(properties: bytes) -> bool | None:
            found = find(properties)
            return None if found is None else found != text

        return differs

    def equal(properties: bytes) -> bool | None:
        found = find(properties)
        return None if found is None else found == text

    return equal


def one_of(find: Lookup, texts: frozenset[bytes], negated: bool) -> Condition:
    """A property [NOT] IN texts."""

    def is_one(properties: bytes) -> bool | None:
        found = find(properties)
        return None if found is None else (found in texts) is not negated

    return is_one


def contains_text(find: Lookup, operator: str, search: bytes, negated: bool) -> Condition:
    """A property [NOT] CONTAINS, STARTSWITH or ENDSWITH a text that is not empty."""

    def contains(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and (search in found) is not negated

    def starts(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and found.startswith(search) is not negated

    def ends(properties: bytes) -> bool | None:
        found = find(properties)
        return found is not None and found.endswith(search) is not negated

    return {"CONTAINS": contains, "STARTSWITH": starts, "ENDSWITH": ends}[operator]
