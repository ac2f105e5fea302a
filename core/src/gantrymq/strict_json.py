"""Strict JSON as orjson reads and writes it; by the standard library where orjson is not installed (it needs a wheel).

    from gantrymq.strict_json import dumps, loads

``loads`` takes UTF-8 bytes or text and raises ValueError; ``dumps`` gives bytes without blanks and raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["dumps", "loads"]


def _loads(data: bytes | bytearray | memoryview | str, /) -> Any:
    text = data if isinstance(data, str) else str(data, "utf-8")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if "\\ud" in text or "\\uD" in text:
        _dumped(value)  # half of a surrogate pair is a UnicodeEncodeError, which is a ValueError
    return value


def _dumps(value: Any, /) -> bytes:
    try:
        return _dumped(value)
    except ValueError as problem:  # half of a surrogate pair, or an object in itself
        raise TypeError(str(problem)) from None


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


loads: Callable[[bytes | bytearray | memoryview | str], Any] = _loads
dumps: Callable[[Any], bytes] = _dumps

try:
    import orjson
except ImportError:
    pass
else:
    loads, dumps = orjson.loads, orjson.dumps
