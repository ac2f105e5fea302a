"""Parsers for times and durations in options."""

from __future__ import annotations

import re
from datetime import datetime

from gantrymq.errors import ConfigError

_UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_DURATION = re.compile(r"([0-9]{1,12})\s*([a-z]+)", re.ASCII)
_LAST_MS = 253_402_300_799_999  # end of year 9999


def duration_ms(option: str, text: str) -> int:
    """Parse ``15m``, ``10 minutes``, ``500 ms``; return milliseconds.

    Raises:
        ConfigError: *text* is not a duration.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"option {option}: {text!r} is not a duration; write 30s, 15m, 2 hours or 1 day")
    return int(found[1]) * _UNITS_MS[found[2]]


def relative_ms(option: str, text: str) -> int | None:
    """Parse ``-10 minutes``; return milliseconds before now, None for text of another form.

    Raises:
        ConfigError: a minus and a digit without a valid duration.
    """
    stripped = text.strip()
    if not re.match(r"-\s*[0-9]+\s*[A-Za-z]", stripped):
        return None
    return duration_ms(option, stripped[1:])


def time_ms(option: str, text: str) -> int:
    """Parse milliseconds since 1970, or ``2026-01-31T12:00:00Z``; return milliseconds since 1970.

    Raises:
        ConfigError: *text* is not a time, has no zone, or is outside 1970 to 9999.
    """
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{1,15}", stripped, re.ASCII):
        found = int(stripped)
    else:
        try:
            moment = datetime.fromisoformat(stripped)
        except ValueError:
            raise ConfigError(
                f"option {option}: {text!r} is not a time; write milliseconds since 1970, 2026-01-31T12:00:00Z or "
                "-10 minutes"
            ) from None
        if moment.tzinfo is None:
            raise ConfigError(f"option {option}: {text!r} has no time zone; write {stripped}Z for UTC")
        found = round(moment.timestamp() * 1000)
    if not 0 <= found <= _LAST_MS:
        raise ConfigError(f"option {option}: {text!r} is outside the years 1970 to 9999")
    return found
