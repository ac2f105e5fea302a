"""Sentences of facts: a fact is a word and values, and each language has one text for the word.

A package has its texts in ``texts/<language>.toml``. A text has fields in braces, named like the values; one with a
number is a table of forms, chosen by the value ``count``:

    on-a-slave = "this broker is a slave; ask its master: gantrymq group explain {group:shell} -b {master:shell}"

    [popped]
    none = "no messages are before it"     # for 0; without it other
    one = "{count} message is before it"   # for 1; without it other
    other = "{count} messages are before it"

Values whose names end in ``_ms`` are durations in ms. None is an unknown value. In a command, fields have the format
``shell``, which quotes values with characters that mean something to a shell, such as ``$`` in names of light queues.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

Value = str | int | None
Text = str | Mapping[str, str]

_FORMS = {0: "none", 1: "one"}


def texts_in(package: str, language: str) -> dict[str, Any]:
    """Return the texts of *package* in *language*, by word; the file may have tables of texts."""
    import tomllib  # both are imported when the first text is needed
    from importlib.resources import files

    return tomllib.loads(files(package).joinpath("texts", f"{language}.toml").read_text("utf-8"))


def form_of(text: Text, count: object) -> str:
    """Return *text*, or the form of it for *count*."""
    if isinstance(text, str):
        return text
    return text.get(_FORMS.get(count, "other") if isinstance(count, int) else "other", text["other"])


def sentence_of(text: Text, values: Mapping[str, Value]) -> str:
    """Return an English text with *values*. Raises KeyError: it has a field without a value."""
    shown = {name: Shown(_shown(name, each)) for name, each in values.items()}
    return form_of(text, values.get("count")).format_map(shown)


class Shown:
    """A value for a field of a text, which may have the format ``shell``."""

    def __init__(self, value: str | int) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        """Return the value, with the format ``shell`` as one word of a command."""
        return shlex.quote(str(self._value)) if spec == "shell" else format(self._value, spec)


def _shown(name: str, value: Value) -> str | int:
    if name.endswith("_ms"):
        return _span(value) if isinstance(value, int) else "an unknown time"
    return "unknown" if value is None else value


def _span(ms: int) -> str:
    """Return a duration in words."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:.0f} s"
    return f"{ms // 60_000} min" if ms < 7_200_000 else f"{ms // 3_600_000} h"
