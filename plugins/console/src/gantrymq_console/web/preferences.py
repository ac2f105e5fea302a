"""Language, theme, time zone and keyboard shortcuts of a browser, kept in cookies."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from gantrymq_console.web.actions import read_form
from gantrymq_console.web.texts import LANGUAGES
from gantrymq_console.web.visit import THEMES, ZONES, Visit

__all__ = ["save"]

YEAR_S: Final = 365 * 86_400
MOST_BYTES: Final = 8192
CHOICES: Final = {"lang": tuple(LANGUAGES), "theme": THEMES, "zone": ZONES}


async def save(visit: Visit) -> Response:
    """Set the cookies that the form asks for, and return to the page that sent it."""
    form = await read_form(visit, MOST_BYTES)
    visit.check_token(form.get("csrf", ""))
    response = RedirectResponse(visit.inside(form.get("back", "")), 303)
    chosen = {name: form[name] for name, choices in CHOICES.items() if form.get(name) in choices}
    for name, value in {**chosen, "keys": "on" if form.get("keys") == "on" else "off"}.items():
        secure = visit.console.exposure.secure
        response.set_cookie(name, value, max_age=YEAR_S, secure=secure, httponly=True, samesite="strict")
    return response
