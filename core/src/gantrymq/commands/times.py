"""Times in options and in output: ``'2026-11-21 10:00:00'``; in options also milliseconds, ``-10m``."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any, Final

import click

TIMES: Final = "'2026-11-21 10:00:00', milliseconds, or -10m for ten minutes ago"  # for help texts
LATER_TIMES: Final = "'2026-11-21 10:00:00', milliseconds, or +10m for in ten minutes"  # of times to come
_AWAY: Final = re.compile(r"([+-][0-9]{1,12})(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def local_time(time_ms: int, *, fraction: bool = False) -> str:
    """Return a time in this host's time zone, to the second, or with *fraction* to the millisecond."""
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))
    return f"{text}.{time_ms % 1000:03d}" if fraction else text


def read_duration_ms(text: str, **where: Any) -> int:
    """Return a duration such as ``500ms``, ``10s`` or ``5m`` in milliseconds.

    Raises:
        click.BadParameter: it is not a duration.
    """
    if found := _AWAY.fullmatch(f"+{text}"):
        return int(found[1]) * _UNIT_MS[found[2]]
    raise click.BadParameter(f"{text!r} is not a duration; expected one such as 500ms, 10s, 5m, 2h or 1d", **where)


def read_time_ms(text: str, now_ms: int | None = None, *, times: str = TIMES, **where: Any) -> int:
    """Return a time in milliseconds, from such a number, local time in ISO format, or a relative ``-10m`` or ``+10m``.

    *now_ms* defaults to the clock's time; *times* are examples for the error; *where* is click's ``param`` or
    ``param_hint``.

    Raises:
        click.BadParameter: it is not a time.
    """
    if text.isdecimal():
        return int(text)
    if away := _AWAY.fullmatch(text):
        from gantrymq.world.real import RealClock

        return max(0, (RealClock().now_ms() if now_ms is None else now_ms) + int(away[1]) * _UNIT_MS[away[2]])
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is not a time; expected one such as {times} (ms, s, m, h, d)", **where
        ) from None
