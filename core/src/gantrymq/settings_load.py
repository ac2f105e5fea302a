"""From layers of text to the settings in force.

    defaults of the schema  <  of the command  <  settings file  <  environment variables  <  flags

A layer holds texts with the place they come from; nothing is parsed before the schema is known, because the schema
depends on which plugins are loaded, and that is a setting itself (``plugins``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.settings_file import EXAMPLE, Line, not_a_setting
from gantrymq.settings_known import NOT_BUILT, is_rocketmq_key, refusal

_VARIABLE = "environment variable {}"
_COMMENT = re.compile(r"\s#")
_QUOTED = re.compile(r"\s*([\"']).*\1\s*\Z", re.DOTALL)


class Given(NamedTuple):
    """A text somebody gave for a key."""

    text: str
    source: str  # as errors and ``config --explain`` name it
    bare: bool = False  # a line of a file without = or :


class Layer(NamedTuple):
    """What one place says; of several layers the later one wins."""

    name: str
    entries: Mapping[str, Given]
    is_file: bool = False  # a settings file: one without any known key is taken for another kind of file


class Loaded(NamedTuple):
    """Settings, and what the operator should hear about them."""

    settings: Settings
    notes: tuple[str, ...]  # one sentence each


def command_layer(name: str, values: Mapping[str, str]) -> Layer:
    """What a command sets where the operator says nothing."""
    return Layer(name, {key: Given(text, name) for key, text in values.items()})


def file_layer(name: str, lines: Iterable[Line]) -> Layer:
    """The entries of a settings file; of two equal keys the later one counts."""
    entries = {line.key: Given(line.value, f"{name} line {line.number}", line.bare) for line in lines}
    return Layer(name, entries, is_file=True)


def environment_layer(environ: Mapping[str, str], schema: Iterable[Setting]) -> Layer:
    """Environment variables that bear the name of a setting; all others are none of our business."""
    keys = {setting.key for setting in schema}.union(NOT_BUILT)
    return Layer(
        "environment",
        {key: Given(environ[key], _VARIABLE.format(key)) for key in sorted(keys.intersection(environ))},
    )


def flag_layer(pairs: Sequence[str], options: Mapping[str, Given] | None = None) -> Layer:
    """``--set key=value`` flags; *options* are settings that have a flag of their own, and weigh as much.

    Raises:
        ConfigError: a pair without an equals sign.
    """
    entries = dict(options or {})
    for pair in pairs:
        key, mark, text = pair.partition("=")
        if not mark or not key.strip():
            raise ConfigError(f"--set {pair}: write key=value")
        entries[key.strip()] = Given(text, f"--set {key.strip()}")
    return Layer("flags", entries)


def strongest(layers: Sequence[Layer], key: str) -> Given | None:
    """The text in force for *key*, None where no layer has one."""
    return next((layer.entries[key] for layer in reversed(layers) if key in layer.entries), None)


def build_settings(schema: Iterable[Setting], layers: Sequence[Layer]) -> Loaded:
    """Parse every text in force against the schema.

    A key that nobody declares is named in a note: as one that RocketMQ has and GantryMQ does not use, or as an unknown
    one with the nearest key there is. So is a value that has quotes around it or seems to have a comment behind it.

    Raises:
        ConfigError: a value that does not fit, a key that asks for what is not built, or a file that has no known key
            or a line that is no setting.
    """
    settings = Settings(schema)
    notes: list[str] = []
    unused: list[str] = []
    for layer in layers:
        if layer.is_file and layer.entries and not any(map(partial(_known, settings), layer.entries)):
            first = next(iter(layer.entries))
            raise ConfigError(
                f"{layer.name} has no setting that this server knows; it begins with {first[:40]!r}"
                f"{nearest(first, settings.schema)}, a settings file has lines such as {EXAMPLE}"
            )
    for key in dict.fromkeys(key for layer in layers for key in layer.entries):
        given = strongest(layers, key)
        assert given is not None
        if key in settings.schema:
            settings.set(key, given.text, given.source)
            if _COMMENT.search(given.text):
                notes.append(f"{given.source}: what follows # is part of {key}; give a comment a line of its own")
            elif _QUOTED.match(given.text):
                notes.append(f"{given.source}: the quotes are part of {key}; leave them out")
            if given.source == _VARIABLE.format(key) and key.isalpha() and key.islower():  # a word that anybody may use
                notes.append(f"{given.source} is in force: {key}={given.text}; unset it if it is not meant for this")
        elif (sentence := refusal(key, given.text)) is not None:
            raise ConfigError(f"{given.source}: {key}={given.text.strip()}: {sentence}")
        elif is_rocketmq_key(key):
            unused.append(key)
        elif given.bare:
            raise not_a_setting(given.source, key)
        else:
            notes.append(f"{given.source}: there is no setting {key}; it is ignored{nearest(key, settings.schema)}")
    if unused:
        notes.append(f"these settings of RocketMQ have no effect here: {', '.join(sorted(unused))}")
    return Loaded(settings, tuple(notes))


def _known(settings: Settings, key: str) -> bool:
    return key in settings.schema or key in NOT_BUILT or is_rocketmq_key(key)


def nearest(key: str, known: Iterable[str]) -> str:
    """`` (did you mean ...?)`` for a key that resembles a known one, else nothing."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), by_lower, 1, cutoff=0.75)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""
