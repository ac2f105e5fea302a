"""Typed settings with defaults and help texts, in RocketMQ's properties format.

The schema is the union of the `Setting` declarations of core and plugins. Values come, in order of increasing
precedence, from defaults, a file (``broker.conf``), environment variables and the command line, always under
RocketMQ's key names.

Source of format and names: apache/rocketmq broker/.../BrokerStartup.java (java.util.Properties),
common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, Self, TypedDict, Unpack

import attrs

from gantrymq.errors import ConfigError

Value = int | bool | str
Kind = Literal["number", "flag", "text"]

HIDDEN = "******"  # printed instead of a secret value
NO_HOME = "$HOME is not set and the user has no entry in passwd"


def home_folder() -> Path | None:
    """Return the user's home folder, or None for the reason `NO_HOME`, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return None


class SettingOptions(TypedDict, total=False):
    """Fields of a `Setting` that have a default."""

    choices: tuple[str, ...]
    at_least: int | None
    at_most: int | None
    not_built: Callable[[Value], str | None] | None
    runtime: bool
    running_at_least: int | None
    secret: bool
    local: bool
    selects: tuple[str, str] | None
    private: bool


@attrs.frozen
class Setting:
    """Declaration of one key; `number`, `flag` and `text` create them."""

    key: str  # RocketMQ's spelling, e.g. "flushDiskType"
    kind: Kind
    default: Value
    help: str  # one sentence, unit included
    choices: tuple[str, ...] = ()  # allowed texts; empty means any
    at_least: int | None = None
    at_most: int | None = None
    not_built: Callable[[Value], str | None] | None = None  # an error for values of features that are not implemented
    runtime: bool = False  # can be changed while the server runs
    running_at_least: int | None = None  # a lower bound for changes while the server runs, if it differs
    secret: bool = False  # never printed
    local: bool = False  # about whom a port trusts (TLS, proxies): requests can neither read nor change it
    selects: tuple[str, str] | None = None  # of a flag: another key, of a text, and the value that true means for it
    private: bool = False  # a secret of accounts: a settings file with it must not be accessible to other users

    @classmethod
    def number(cls, key: str, default: int, help: str, **options: Unpack[SettingOptions]) -> Self:
        """Declare a number key."""
        return cls(key, "number", default, help, **options)

    @classmethod
    def flag(cls, key: str, default: bool, help: str, **options: Unpack[SettingOptions]) -> Self:
        """Declare a flag key, true or false."""
        return cls(key, "flag", default, help, **options)

    @classmethod
    def text(cls, key: str, default: str, help: str, **options: Unpack[SettingOptions]) -> Self:
        """Declare a text key."""
        return cls(key, "text", default, help, **options)

    def parse(self, text: str, where: str) -> Value:
        """Parse *text*; *where* is the file, variable or flag for errors.

        Raises:
            ConfigError: wrong type, not one of the choices, out of bounds, or not implemented.
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
    """The effective values. Reading an undeclared key is a bug and raises KeyError."""

    def __init__(self, schema: Iterable[Setting], values: Mapping[str, Value] | None = None) -> None:
        self._schema = {setting.key: setting for setting in schema}
        self._values: dict[str, Value] = {key: setting.default for key, setting in self._schema.items()}
        self._sources: dict[str, str] = {}
        self.flags: Mapping[str, str] = {}  # key to the flag of the running command that sets it
        self.revision = 0  # incremented by every change, so that hot paths can cache values
        for key, value in (values or {}).items():
            self.set(key, value, "given in code")
        self.apply_selections()

    @property
    def schema(self) -> Mapping[str, Setting]:
        """Declarations by key."""
        return self._schema

    def number(self, key: str) -> int:
        """Return the value of a number key."""
        value = self._values[key]
        assert isinstance(value, int) and not isinstance(value, bool), key
        return value

    def flag(self, key: str) -> bool:
        """Return the value of a flag key."""
        value = self._values[key]
        assert isinstance(value, bool), key
        return value

    def text(self, key: str) -> str:
        """Return the value of a text key."""
        value = self._values[key]
        assert isinstance(value, str), key
        return value

    def set(self, key: str, value: Value, source: str) -> None:
        """Set a declared key; texts are parsed. *source* is kept for ``explain`` and errors.

        Raises:
            KeyError: *key* is not declared.
            ConfigError: the value is invalid.
        """
        setting = self._schema[key]
        self._values[key] = setting.parse(str(value).lower() if isinstance(value, bool) else str(value), source)
        self._sources[key] = source
        self.revision += 1

    def apply_selections(self) -> None:
        """Set the keys that flags with `Setting.selects` select; call this once all values are set.

        Raises:
            ConfigError: two settings select different values.
        """
        for each in self._schema.values():
            if each.selects is None or self._values[each.key] is not True:
                continue
            key, value = each.selects
            if self._values[key] not in (self._schema[key].default, value):
                raise ConfigError(
                    f"{self.source(each.key)}: {each.key}=true selects {key}={value}, and {self.source(key)} has "
                    f"{key}={self._values[key]}; keep one of the two"
                )
            if self._values[key] != value:
                self._values[key], self._sources[key] = value, f"{each.key}=true"

    def source(self, key: str) -> str:
        """Return the source of the effective value."""
        return self._sources.get(key, "default")

    def how_to_set(self, key: str, value: str) -> str:
        """Return the command-line flag that sets *key* to *value* for the running command."""
        return f"{self.flags[key]} {value}" if key in self.flags else f"--set {key}={value}"

    def as_dict(self, *, secrets: bool = False) -> dict[str, Value]:
        """Return all values, sorted by key. Secrets that are set are masked unless *secrets* is True."""
        found = dict(sorted(self._values.items()))
        if not secrets:
            found.update({key: HIDDEN for key, value in found.items() if value and self._schema[key].secret})
        return found

    def shown(self) -> dict[str, Value]:
        """Return the values that a server reports to requests: all but those with `Setting.local`, as in RocketMQ."""
        return {key: value for key, value in self.as_dict().items() if not self._schema[key].local}


def free_port_keys(schema: Iterable[Setting]) -> list[str]:
    """Return the keys of ports where 0 selects a free port, for servers that must not conflict on one machine."""
    return [each.key for each in schema if each.kind == "number" and each.key.endswith("Port") and each.at_least == 0]
