"""Ids of browsers, and the tokens that prove that a form was made by this console for this browser.

A browser gets a random id in a cookie. A log-in replaces it by the new id of the session. The token is a MAC of
the id: it counts for one session, and nothing is stored for visitors who are not logged in.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["BrowserTokens"]

ID: Final = re.compile(r"[0-9a-f]{64}")


class BrowserTokens:
    """Issues and checks tokens."""

    def __init__(self, *, secure: bool) -> None:
        self._key = secrets.token_bytes(32)
        self._secure = secure

    def read(self, request: Request) -> None:
        """Put the browser's id into the request's scope, if it sent one."""
        given = request.cookies.get(self._cookie(request), "")
        if ID.fullmatch(given):
            request.scope["gantrymq.browser"] = given

    def was_sent(self, request: Request) -> bool:
        """Return whether the browser sent its cookie."""
        return self._cookie(request) in request.cookies

    def token(self, request: Request) -> str:
        """Return the token for forms. A browser without an id gets one."""
        browser = request.scope.setdefault("gantrymq.browser", secrets.token_hex(32))
        return hmac.new(self._key, browser.encode(), hashlib.sha256).hexdigest()

    def keep(self, request: Request, response: Response) -> None:
        """Set the cookie if the browser got a new id."""
        browser = request.scope.get("gantrymq.browser")
        name = self._cookie(request)
        if browser is not None and request.cookies.get(name) != browser:
            response.set_cookie(name, browser, secure=self._secure, httponly=True, samesite="strict")

    def _cookie(self, request: Request) -> str:
        """Return the cookie's name. Without HTTPS it has the port: browsers share cookies of all ports of a host."""
        return "__Host-gantrymq" if self._secure else f"gantrymq-{_port(request.headers.get('host', ''))}"


@lru_cache(maxsize=64)
def _port(host: str) -> int:
    try:
        return urlsplit(f"//{host}").port or 80
    except ValueError:
        return 80
