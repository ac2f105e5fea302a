"""Strict JSON with orjson, or with the standard library if orjson is not installed.

    from gantrymq.strict_json import dumps, loads

``loads`` accepts UTF-8 bytes or text and raises ValueError; ``dumps`` returns bytes without spaces and
raises TypeError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def _loads(data: bytes | bytearray | memoryview | str, /) -> Any:
    text = data if isinstance(data, str) else str(data, "utf-8")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if "\\ud" in text or "\\uD" in text:
        _dumped(value)  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return value


def _dumps(value: Any, /) -> bytes:
    try:
        return _dumped(value)
    except ValueError as problem:  # a lone surrogate, or a circular reference
        raise TypeError(str(problem)) from None


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


loads: Callable[[bytes | bytearray | memoryview | str], Any] = _loads
dumps: Callable[[Any], bytes] = _dumps

try:
    import orjson
except ImportError:
    pass
else:
    loads, dumps = orjson.loads, orjson.dumps
