"""Checks of topic and group configurations: limits of the settings, and that the next start can read the file."""

from __future__ import annotations

from typing import Final

from gantrymq.config import Settings
from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.formats.config import pretty
from gantrymq.loose_json import loads
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig

MOST_CHARS: Final = 65_536  # of one topic or group in its file, which is rewritten completely by each change


def check_readable(config: TopicConfig | GroupConfig, what: str) -> None:
    """Check that *config* can be read back from its file.

    Raises:
        InvalidParameter: it cannot be read, or its text is too long.
    """
    try:
        text = pretty(config.to_json())
        if len(text) > MOST_CHARS:
            raise FormatError(f"its configuration has {len(text)} characters, the longest allowed has {MOST_CHARS}")
        type(config).from_json(loads(text))
    except FormatError as problem:
        raise InvalidParameter(f"{what} {config.name}: {problem}") from None


def check_limit(settings: Settings, key: str, what: str, count: int, before: int) -> None:
    """Refuse a *count* above both the setting *key* and the value *before*. Raises InvalidParameter."""
    most = max(settings.number(key), before)
    if not 0 <= count <= most:
        raise InvalidParameter(f"{what} {count} is not between 0 and {most} (the setting {key})")
