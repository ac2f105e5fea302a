"""The page to log in, and the preferences of a browser.

Visitors who are not known log in with a name and password, or with the code of a one-time link. Language, theme, time
zone and keyboard shortcuts are kept in cookies.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Final
from urllib.parse import urlencode

import attrs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from gantrymq_console.access.accounts import Accounts, LogInFailed
from gantrymq_console.access.audit import AuditUnwritable, Entry
from gantrymq_console.access.cluster_accounts import ClusterAccounts
from gantrymq_console.access.passwords import TooBusy
from gantrymq_console.access.users import Role, User
from gantrymq_console.web import responses
from gantrymq_console.web.actions import read_form
from gantrymq_console.web.console import Console
from gantrymq_console.web.context import THEMES, ZONES, RequestContext, link_to, page_of
from gantrymq_console.web.pages import Forbidden
from gantrymq_console.web.render import render
from gantrymq_console.web.security import BrowserTokens
from gantrymq_console.web.texts import LANGUAGES

log = logging.getLogger(__name__)

_MOST_BYTES: Final = 8192
_NOBODY: Final = User("", Role.VIEWER)  # nothing but the page to log in is made for it
_YEAR_S: Final = 365 * 86_400
_CHOICES: Final = {"lang": tuple(LANGUAGES), "theme": THEMES, "zone": ZONES}


@attrs.frozen
class LogInData:
    """Data of the page."""

    to: str  # path and query of the page to show next
    code: str = ""  # of the one-time link
    with_link: bool = False  # whether one-time links are offered instead of passwords
    by_cluster: bool = False  # whether names and secrets are those of users of the cluster
    name: str = ""
    problem: str = ""  # text that says why the last attempt failed
    wait_s: int = 0  # seconds until the next attempt is allowed


class LogInPage:
    """GET and POST of ``/login``."""

    def __init__(self, console: Console, accounts: Accounts, tokens: BrowserTokens) -> None:
        self._console = console
        self._accounts = accounts
        self._tokens = tokens
        self._by_cluster = isinstance(accounts, ClusterAccounts)

    async def __call__(self, request: Request) -> Response:
        """Show the page, or log in."""
        user = await self._accounts.user_of(request)
        context = RequestContext(request, self._console, user or _NOBODY, partial(self._tokens.token, request))
        if request.method == "POST":
            return await self._log_in(request, context)
        if user is not None:
            return RedirectResponse(context.inside(context.text("to")), 303)
        if not context.text("code"):
            self._accounts.offer_code()
        code = "" if self._by_cluster else context.text("code")
        return self._page(context, LogInData(context.text("to"), code, self._accounts.with_link, self._by_cluster))

    async def _log_in(self, request: Request, context: RequestContext) -> Response:
        form = await read_form(context, _MOST_BYTES)
        name = form.get("name", "").strip()
        data = LogInData(form.get("to", ""), "", self._accounts.with_link, self._by_cluster, name)
        try:
            context.check_token(form.get("csrf", ""))
        except Forbidden:
            problem = "login.stale" if self._tokens.was_sent(request) else "login.no_cookie"
            return self._page(context, attrs.evolve(data, problem=problem), 403)
        try:
            if form.get("code"):
                name = self._accounts.use_code(request, form["code"])
            else:
                name = await self._accounts.log_in(request, data.name, form.get("password", ""))
        except LogInFailed as failure:
            if failure.obstacle:
                return self._page(context, attrs.evolve(data, problem=f"login.{failure.obstacle}"), 503)
            wait_s = math.ceil(failure.wait_s)
            if not wait_s:  # refused attempts have no entry, or a visitor could push all others out of the log
                await self._note(context, data.name[:64], "failed")
            problem = "login.wait" if wait_s else "login.link_used" if data.with_link else "login.wrong"
            return self._page(context, attrs.evolve(data, problem=problem, wait_s=wait_s), 429 if wait_s else 401)
        except TooBusy:
            raise HTTPException(503, "Too many visitors are logging in; try again.", {"Retry-After": "5"}) from None
        await self._note(context, name, "done")
        return RedirectResponse(context.inside(data.to), 303)

    def _page(self, context: RequestContext, data: LogInData, status: int = 200) -> Response:
        headers = {"Retry-After": str(data.wait_s)} if data.wait_s else None
        return HTMLResponse(render("login.html", context, data=data), status, headers)

    async def _note(self, context: RequestContext, name: str, result: str) -> None:
        """Write the log-in into the audit log. If that fails the visitor still gets in, to see why."""
        entry = Entry(context.now_ms(), "", name, responses.address_of(context), "login.title", name, result=result)
        try:
            await self._console.audit.write(entry)
        except AuditUnwritable as problem:
            log.warning("a log-in is not in the audit log: %s", problem)


def log_in_first(request: Request, path: str) -> Response:
    """Return a redirection to the page to log in, which leads back to the page that was asked for."""
    page = page_of(request)
    query = f"?{urlencode({'to': page})}" if page != "/" else ""
    return RedirectResponse(link_to(request, path.lstrip("/")) + query, 303)


async def save_preferences(context: RequestContext) -> Response:
    """Set the cookies that the form asks for, and return to the page that sent it."""
    form = await read_form(context, _MOST_BYTES)
    context.check_token(form.get("csrf", ""))
    response = RedirectResponse(context.inside(form.get("back", "")), 303)
    chosen = {name: form[name] for name, choices in _CHOICES.items() if form.get(name) in choices}
    for name, value in {**chosen, "keys": "on" if form.get("keys") == "on" else "off"}.items():
        secure = context.console.exposure.secure
        response.set_cookie(name, value, max_age=_YEAR_S, secure=secure, httponly=True, samesite="strict")
    return response
