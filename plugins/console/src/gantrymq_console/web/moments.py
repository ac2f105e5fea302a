"""Times that a visitor typed into a form, made by the macro ``moment_field``.

The script of the page adds the time in UTC; without it, the time is taken for UTC, as the form says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from gantrymq_console.web.pages import BadInput

__all__ = ["moment_of"]


def moment_of(form: Mapping[str, str], name: str) -> int | None:
    """Return the time of the field *name* in ms since 1970, None if it is empty.

    Milliseconds, and times with or without a zone in ISO format, are accepted. Raises BadInput: anything else.
    """
    text = (form.get(f"{name}_utc") or form.get(name, "")).strip()
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadInput("common.not_a_time", value=text[:40]) from None
