"""Checks of every request, headers of every response, and the tokens of forms.

- ``Host`` must be a loopback address or a configured name, against DNS rebinding.
- A request that may change something must come from a page of the console: ``Origin`` or ``Sec-Fetch-Site``, and the
  token of the session in the form or in ``X-CSRF-Token``.
- ``X-Forwarded-*`` count only if a configured proxy sent them.

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

from gantrymq_console.access.exposure import Exposure, is_loopback

_ID: Final = re.compile(r"[0-9a-f]{64}")
# Referrer-Policy: browsers send "Origin: null" with forms of a page that has no-referrer.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RAW_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
SAFE: Final = frozenset({"GET", "HEAD"})
_MOST_HOPS: Final = 20  # entries of X-Forwarded-For that are read


class BrowserTokens:
    """Issues and checks tokens."""

    def __init__(self, *, secure: bool) -> None:
        self._key = secrets.token_bytes(32)
        self._secure = secure

    def read(self, request: Request) -> None:
        """Put the browser's id into the request's scope, if it sent one."""
        given = request.cookies.get(self._cookie(request), "")
        if _ID.fullmatch(given):
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


def refusal(request: Request, exposure: Exposure) -> str | None:
    """Return why a request is refused, before it is known who sent it; None if it is not."""
    host = request.headers.get("host", "")
    if not (_is_local(host) or _host_name(host) in exposure.hosts):
        return f"the console is not known under the name {host[:80]!r}; start it with --host-name to add it"
    if request.method in SAFE:
        return None
    site = request.headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        return "this request comes from a page of another site"
    origin = request.headers.get("origin")
    if origin is not None and not _is_own(origin, host, exposure):
        return (
            f"this request comes from a page of {origin[:80]!r}, not of the console; behind a proxy that changes the "
            "header Host, start the console with --host-name and the name in the browser's address line"
        )
    return None


def secured(response: Response, exposure: Exposure) -> None:
    """Add the headers that every response has, unless it has other values for them."""
    own = {name for name, _ in response.raw_headers}
    response.raw_headers += [each for each in _RAW_HEADERS if each[0] not in own]
    if exposure.secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")


def note_sender(request: Request, exposure: Exposure) -> None:
    """Put the visitor's address into the request's scope, and whether a trusted proxy sent the request."""
    peer = request.client.host if request.client is not None else ""
    request.scope["gantrymq.by_proxy"] = exposure.is_proxy(peer)
    if request.scope["gantrymq.by_proxy"]:
        hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        for hop in reversed(hops[-_MOST_HOPS:]):
            if not hop.strip():
                break
            peer = hop.strip()[:64]
            if not exposure.is_proxy(peer):
                break
    request.scope["gantrymq.address"] = peer


def _is_own(origin: str, host: str, exposure: Exposure) -> bool:
    """Return whether *origin* is a page of the console: the host asked for, or one of its public names."""
    try:
        found = urlsplit(origin)
        return found.netloc.lower() == host.lower() or (found.hostname or "") in exposure.hosts
    except ValueError:
        return False


@lru_cache(maxsize=64)
def _is_local(host: str) -> bool:
    return is_loopback(_host_name(host))


@lru_cache(maxsize=64)
def _host_name(host: str) -> str:
    """Return the name in a Host header without the port, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
