"""Times as options give them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

import click

_AGO: Final = re.compile(r"-(\d+)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_time_ms(text: str, **where: Any) -> int:
    """A time as milliseconds, as local time that `datetime` reads, or as ``-10m``: so long before now.

    *where* is click's ``param`` or ``param_hint``.

    Raises:
        click.BadParameter: it is none of them.
    """
    if text.isdecimal():
        return int(text)
    if ago := _AGO.fullmatch(text):
        from gantrymq.world.real import real_world

        return real_world().clock.now_ms() - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is no time; expected one such as '2026-11-21 10:00:00', milliseconds, or -10m for ten minutes "
            "ago (ms, s, m, h, d)",
            **where,
        ) from None
