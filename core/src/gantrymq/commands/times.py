"""Times as options give them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click


def read_time_ms(text: str, **where: Any) -> int:
    """A time as milliseconds, or as local time that `datetime` reads; *where* is click's ``param`` or ``param_hint``.

    Raises:
        click.BadParameter: it is neither.
    """
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is neither a time such as '2026-11-21 10:00:00' nor milliseconds", **where
        ) from None
