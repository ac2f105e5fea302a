"""Settings: typed, with defaults and help, read from RocketMQ's own properties format.

One schema is the sum of what core and the plugins declare as `Setting`. Values come, the later the stronger, from
defaults, a file (``broker.conf``), environment variables and the command line, always under RocketMQ's key names.

Source of format and names: apache/rocketmq broker/.../BrokerStartup.java (java.util.Properties),
common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import attrs

from gantrymq.errors import ConfigError

Value = int | bool | str
Kind = Literal["number", "flag", "text"]

HIDDEN = "******"  # stands for a secret


@attrs.frozen
class Setting:
    """One key an operator may set."""

    key: str  # RocketMQ's spelling, e.g. "flushDiskType"
    kind: Kind
    default: Value
    help: str  # one sentence, unit included
    choices: tuple[str, ...] = ()  # allowed texts; empty means any
    at_least: int | None = None
    at_most: int | None = None
    not_built: Callable[[Value], str | None] | None = None  # a sentence when this value names what is not built
    runtime: bool = False  # may be changed while the server runs
    secret: bool = False  # shown to nobody
    local: bool = False  # says whom a port trusts (TLS, proxies): requests neither show nor change it

    def parse(self, text: str, where: str) -> Value:
        """Turn *text* into a value; *where* names the file, variable or flag in errors.

        Raises:
            ConfigError: wrong type, not among the choices, out of bounds, or not built.
        """
        text = text.strip()
        if any(char in text for char in "\r\n\0"):
            raise ConfigError(f"{where}: the value of {self.key} has a line break or a zero in it; make it one line")
        value = self._convert(text, where)
        if self.choices and value not in self.choices:
            raise ConfigError(f"{where}: {self.key}={text} is not one of {', '.join(filter(None, self.choices))}")
        if isinstance(value, int) and not isinstance(value, bool):
            if self.at_least is not None and value < self.at_least:
                raise ConfigError(f"{where}: {self.key}={value} is below the smallest allowed value {self.at_least}")
            if self.at_most is not None and value > self.at_most:
                raise ConfigError(f"{where}: {self.key}={value} is above the largest allowed value {self.at_most}")
        if self.not_built is not None and (sentence := self.not_built(value)) is not None:
            raise ConfigError(f"{where}: {self.key}={text}: {sentence}")
        return value

    def _convert(self, text: str, where: str) -> Value:
        if self.kind == "number":
            try:
                return int(text)
            except ValueError:
                raise ConfigError(f"{where}: {self.key}={text} is not a whole number") from None
        if self.kind == "flag":
            if text.lower() not in ("true", "false"):
                raise ConfigError(f"{where}: {self.key}={text} is neither true nor false")
            return text.lower() == "true"
        return text


class Settings:
    """The values in force. Reading a key nobody declared is a bug and raises KeyError."""

    def __init__(self, schema: Iterable[Setting], values: Mapping[str, Value] | None = None) -> None:
        self._schema = {setting.key: setting for setting in schema}
        self._values: dict[str, Value] = {key: setting.default for key, setting in self._schema.items()}
        self._sources: dict[str, str] = {}
        self.flags: Mapping[str, str] = {}  # those of the command that runs, by the key that each one sets
        self.revision = 0  # grows with every change, so that hot paths may keep what they read
        for key, value in (values or {}).items():
            self.set(key, value, "given in code")

    @property
    def schema(self) -> Mapping[str, Setting]:
        """Key to declaration."""
        return self._schema

    def number(self, key: str) -> int:
        """The value of a whole-number key."""
        value = self._values[key]
        assert isinstance(value, int) and not isinstance(value, bool), key
        return value

    def flag(self, key: str) -> bool:
        """The value of a true/false key."""
        value = self._values[key]
        assert isinstance(value, bool), key
        return value

    def text(self, key: str) -> str:
        """The value of a text key."""
        value = self._values[key]
        assert isinstance(value, str), key
        return value

    def set(self, key: str, value: Value, source: str) -> None:
        """Set a declared key; texts are parsed. *source* is kept for ``explain`` and errors.

        Raises:
            KeyError: nobody declared *key*.
            ConfigError: the value does not fit.
        """
        setting = self._schema[key]
        self._values[key] = setting.parse(str(value).lower() if isinstance(value, bool) else str(value), source)
        self._sources[key] = source
        self.revision += 1

    def source(self, key: str) -> str:
        """Where the value in force came from."""
        return self._sources.get(key, "default")

    def how_to_set(self, key: str, value: str) -> str:
        """What somebody writes behind the command that runs, to give *key* that value."""
        return f"{self.flags[key]} {value}" if key in self.flags else f"--set {key}={value}"

    def as_dict(self, *, secrets: bool = False) -> dict[str, Value]:
        """Every key with its value, sorted by key; a secret one that is set is hidden unless *secrets* asks for it."""
        found = dict(sorted(self._values.items()))
        if not secrets:
            found.update({key: HIDDEN for key, value in found.items() if value and self._schema[key].secret})
        return found

    def shown(self) -> dict[str, Value]:
        """What a server shows: every key, sorted, but those that are `Setting.local`, as with RocketMQ."""
        return {key: value for key, value in self.as_dict().items() if not self._schema[key].local}


def free_port_keys(schema: Iterable[Setting]) -> list[str]:
    """Keys of ports that pick a free one when they are 0: what servers that must not meet on a machine set to 0."""
    return [each.key for each in schema if each.kind == "number" and each.key.endswith("Port") and each.at_least == 0]
