"""The texts of the console, in English and Chinese.

``texts/<language>/<part>.toml`` holds the texts of one part; ``texts/en/groups.toml`` with ``title = "Groups"`` defines
``groups.title``. Texts have the format of `gantrymq.model.texts`; Chinese has the form ``other`` only. Sentences of
reasons and evidence are in the packages that find them: `_PACKAGES`. ``tests/console`` fails if a language lacks a
key or a field.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup, escape

from gantrymq.plugin.model import Shown, Text, form_of, texts_in

LANGUAGES: Final = {"en": "English", "zh": "中文"}
DEFAULT: Final = "en"
_PACKAGES: Final = {"reasons.": "gantrymq_diagnosis", "": "gantrymq_admin"}  # by prefix of the keys


class _Escaped(Shown):
    """A value for a field of a text in HTML."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._escaped = escape(value)

    def __format__(self, spec: str) -> str:
        """Return the value for HTML."""
        return escape(Shown(self._escaped.unescape()).__format__(spec)) if spec else self._escaped


class Texts:
    """The texts of one language."""

    def __init__(self, language: str, table: Mapping[str, Text]) -> None:
        self.language = language
        self.table = table
        self._fixed: dict[str, Markup] = {}  # texts without fields

    def __call__(self, key: str, /, **fields: Any) -> Markup:
        """Return the text *key* with *fields* inserted and escaped. Raises KeyError: no such text or field."""
        if not fields:
            fixed = self._fixed.get(key)
            if fixed is not None:
                return fixed
        escaped = _escaped(form_of(self.table[key], fields.get("count")))
        if not fields and "{" not in escaped:
            self._fixed[key] = escaped
            return escaped
        shown = {name: _Escaped(self.number(each) if type(each) is not str else each) for name, each in fields.items()}
        return Markup(str(escaped).format(**shown))

    def plain(self, key: str, /, **fields: Any) -> str:
        """Return a text for something else than HTML."""
        return str(self(key, **fields).unescape())

    def get(self, key: str, default: str, /, **fields: Any) -> Markup:
        """Return the text *key*, or *default* if the catalogue lacks it, such as for a reason of a newer broker."""
        return self(key, **fields) if key in self.table else escape(default)

    def translated(self, key: str, fields: Mapping[str, Any]) -> Markup:
        """Return the text *key*, or nothing if the catalogue lacks it or has fields without a value."""
        try:
            return self(key, **fields)
        except KeyError:
            return Markup("")

    def number(self, value: Any) -> Any:
        """Return a whole number with grouped digits, and anything else unchanged."""
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


@cache
def _escaped(text: str) -> Markup:
    """Return a text of a catalogue for HTML."""
    return escape(text)


@cache
def texts_of(language: str) -> Texts:
    """Return the texts of *language*, a key of `LANGUAGES`."""
    table: dict[str, Text] = {}
    for prefix, package in _PACKAGES.items():
        table |= _flat(prefix, texts_in(package, language))
    for path in files("gantrymq_console").joinpath("texts", language).iterdir():
        if path.name.endswith(".toml"):
            try:
                table |= _flat(path.name.removesuffix("toml"), tomllib.loads(path.read_text("utf-8")))
            except tomllib.TOMLDecodeError as problem:
                problem.add_note(f"in texts/{language}/{path.name} of gantrymq_console")
                raise
    return Texts(language, table)


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, str) or "other" in value:
            yield prefix + name, value
        else:
            yield from _flat(f"{prefix}{name}.", value)


def best_language(accept: str) -> str:
    """Return the language that a browser with this Accept-Language header prefers."""
    wanted: list[tuple[float, int, str]] = []
    for place, each in enumerate(accept.split(",")[:20]):
        tag, _, quality = each.strip().partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            weight = 0.0
        wanted.append((-weight, place, tag.partition("-")[0].lower()))
    return next((tag for weight, _, tag in sorted(wanted) if weight < 0 and tag in LANGUAGES), DEFAULT)
