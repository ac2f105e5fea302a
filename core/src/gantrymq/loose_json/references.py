"""References: fastjson writes a repeated object as ``{"$ref": path}``.

Source: com.alibaba:fastjson 1.2.83 JSONPath.java, SerializeWriter.java (writeReference).
"""

from __future__ import annotations

import re
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json.keys import MAX_DEPTH

__all__ = ["Resolver"]

_MAX_COPIES: Final = 100_000  # values that `$ref` may add to one document

_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")


class Resolver:
    """Replaces ``{"$ref": path}`` by a copy of the target, within a limit of copied values."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._budget = _MAX_COPIES

    def resolve(self, value: Any, inside: tuple[int, ...]) -> Any:
        """Return *value* without references; *inside* holds the ids of the referenced values being copied."""
        if isinstance(value, dict):
            path = value.get("$ref")
            if len(value) == 1 and isinstance(path, str):
                return self._follow(path, inside)
            if inside:
                self._spend(1 + len(value))
            return {key: self.resolve(member, inside) for key, member in value.items()}
        if isinstance(value, list):
            if inside:
                self._spend(1 + len(value))
            return [self.resolve(member, inside) for member in value]
        return value

    def _follow(self, path: str, inside: tuple[int, ...]) -> Any:
        target = self._target(path)
        if id(target) in inside or len(inside) >= MAX_DEPTH:
            raise FormatError(f"JSON reference {path!r} contains itself")
        self._spend(1)
        return self.resolve(target, (*inside, id(target)))

    def _target(self, path: str) -> Any:
        value, at = self._root, 1
        while path.startswith("$") and at < len(path):
            step = _STEP.match(path, at)
            if step is None:
                break
            name, index, _, quoted = step.groups()
            try:
                value = value[int(index)] if index else self._member(value, quoted or re.sub(r"\\(.)", r"\1", name))
            except (KeyError, IndexError, TypeError) as error:
                raise FormatError(f"JSON reference {path!r} has no target") from error
            at = step.end()
        if not path.startswith("$") or at < len(path):
            raise FormatError(f"JSON reference {path!r} has an unsupported form")
        return value

    @staticmethod
    def _member(value: Any, name: str) -> Any:
        if isinstance(value, dict) and name not in value and name.lstrip("-").isdigit():
            return value[int(name)]
        return value[name]

    def _spend(self, values: int) -> None:
        self._budget -= values
        if self._budget < 0:
            raise FormatError(f"JSON references expand to more than {_MAX_COPIES} values")
