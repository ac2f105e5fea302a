"""Checks of every request and headers of every response.

- ``Host`` must be a loopback address or a configured name, against DNS rebinding.
- A request that may change something must come from a page of the console: ``Origin`` or ``Sec-Fetch-Site``, and the
  token of the session in the form or in ``X-CSRF-Token``.
- ``X-Forwarded-*`` count only if a configured proxy sent them.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from gantrymq_console.web.console import Exposure

__all__ = ["HEADERS", "address_of", "refusal"]

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SAFE: Final = frozenset({"GET", "HEAD"})


def refusal(request: Request, exposure: Exposure) -> str | None:
    """Return why a request is refused, before it is known who sent it; None if it is not."""
    host = request.headers.get("host", "")
    name = _host_name(host)
    if not (_is_loopback(name) or name in exposure.hosts):
        return f"the console is not known under the name {host[:80]!r}; start it with --host-name to add it"
    if request.method in SAFE:
        return None
    site = request.headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        return "this request comes from a page of another site"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return "this request comes from a page of another site"
    return None


def address_of(request: Request, exposure: Exposure) -> str:
    """Return the address of the visitor."""
    peer = request.client.host if request.client is not None else ""
    forwarded = request.headers.get("x-forwarded-for", "")
    return forwarded.rpartition(",")[2].strip()[:64] if peer in exposure.proxies and forwarded else peer


def _host_name(host: str) -> str:
    """Return the name in a Host header without the port, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
