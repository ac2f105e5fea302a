"""Reading a strategy's settings: each setting is read once, and unread settings are unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gantrymq.errors import ConfigError

T = TypeVar("T")


class StrategySettings:
    """The settings of one strategy, strings by name. Read each of them, then call `finish` or `rest`."""

    def __init__(self, strategy: str, settings: Mapping[str, str]) -> None:
        """*strategy*: its name, for error messages."""
        self._strategy = strategy
        self._left = dict(settings)
        self._known: list[str] = []

    def text(self, key: str, default: str) -> str:
        """Return a non-empty string. Raises ConfigError if it is empty."""
        value = self._take(key, default)
        if not value:
            raise self._wrong(key, value, f"a text that is not empty, such as {key}={default}")
        return value

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """Return an integer from *least* to *most*. Raises ConfigError otherwise."""
        value = self._take(key, str(default))
        digits = value.removeprefix("-")
        number = int(value) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        if number is None or not least <= number <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most}")
        return number

    def names(self, key: str, purpose: str) -> list[str]:
        """Return one or more names separated by commas. Raises ConfigError without any; *purpose* is its hint."""
        value = self._take(key, "")
        found = [name.strip() for name in value.split(",") if name.strip()]
        if not found:
            raise self._wrong(key, value, purpose)
        return found

    def choice(self, key: str, default: str, allowed: Collection[str]) -> str:
        """Return one of *allowed*. Raises ConfigError for another value."""
        value = self._take(key, default)
        if value not in allowed:
            raise self._wrong(key, value, f"one of {', '.join(allowed)}")
        return value

    def parsed(self, key: str, parse: Callable[[str], T]) -> T:
        """Return the value (default: empty) parsed by *parse*. Raises ConfigError if *parse* raises ValueError."""
        value = self._take(key, "")
        try:
            return parse(value)
        except ValueError as problem:
            raise self._wrong(key, value, str(problem)) from None

    def rest(self) -> dict[str, str]:
        """Return unread settings for an inner strategy. Raises ConfigError if one looks like a misspelt known one."""
        for key in sorted(self._left):
            if self._near(key):
                raise self._unknown(key)
        return dict(self._left)

    def finish(self) -> None:
        """Check that all settings were read. Raises ConfigError otherwise."""
        if self._left:
            raise self._unknown(min(self._left))

    def _near(self, key: str) -> list[str]:
        return difflib.get_close_matches(key, self._known, 1)

    def _unknown(self, key: str) -> ConfigError:
        known = f"it knows {', '.join(self._known)}" if self._known else "it has none"
        hint = "".join(f"; did you mean {near}?" for near in self._near(key))
        return ConfigError(f"allocation strategy {self._strategy} has no setting {key} ({known}){hint}")

    def _take(self, key: str, default: str) -> str:
        self._known.append(key)
        return self._left.pop(key, default).strip()

    def _wrong(self, key: str, value: str, expected: str) -> ConfigError:
        return ConfigError(f"allocation strategy {self._strategy}: {key}={value} should be {expected}")
