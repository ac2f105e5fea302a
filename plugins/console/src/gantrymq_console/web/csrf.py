"""Tokens that prove that a form was made by this console for this browser.

A browser gets a random id in a cookie; its token is a MAC of the id, so that nothing is stored for visitors.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["BrowserTokens"]

ID: Final = re.compile(r"[0-9a-f]{64}")


class BrowserTokens:
    """Issues and checks tokens."""

    def __init__(self, *, secure: bool) -> None:
        self._key = secrets.token_bytes(32)
        self._secure = secure
        self._cookie = "__Host-gantrymq" if secure else "gantrymq"

    def id_of(self, request: Request) -> str:
        """Return the browser's id, a new one if it has none."""
        known = request.scope.get("gantrymq.browser") or request.cookies.get(self._cookie, "")
        found = known if ID.fullmatch(known) else secrets.token_hex(32)
        request.scope["gantrymq.browser"] = found
        return found

    def token(self, request: Request) -> str:
        """Return the token for forms."""
        return hmac.new(self._key, self.id_of(request).encode(), hashlib.sha256).hexdigest()

    def keep(self, request: Request, response: Response) -> None:
        """Set the cookie if the browser did not send it and got a token."""
        browser = request.scope.get("gantrymq.browser")
        if browser is not None and request.cookies.get(self._cookie) != browser:
            response.set_cookie(self._cookie, browser, secure=self._secure, httponly=True, samesite="strict")
