"""The ASGI application of a console."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

import attrs
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from gantrymq.errors import GantryError
from gantrymq_console.access.accounts import Accounts
from gantrymq_console.access.audit import AuditUnwritable
from gantrymq_console.access.sessions import Rates, network_of
from gantrymq_console.access.users import Role, User
from gantrymq_console.web import login, render, responses, security
from gantrymq_console.web.actions import Actions
from gantrymq_console.web.console import Console
from gantrymq_console.web.context import LIVE, RequestContext
from gantrymq_console.web.login import LogInPage, log_in_first
from gantrymq_console.web.pages import Action, BadInput, Conflict, Download, Forbidden, NotFound, Page, SeeOther
from gantrymq_console.web.security import BrowserTokens
from gantrymq_console.web.user_consoles import UserConsoles

log = logging.getLogger(__name__)

_API: Final = "/api/v1"
_HEALTH: Final = "/healthz"
Endpoint = Callable[[Request], Awaitable[Response]]


class App:
    """An ASGI application: pages of all sections, JSON below `_API`, static files."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.tokens = BrowserTokens(secure=console.exposure.secure)
        self._actions = Actions()
        self._rates = Rates(console.world.clock)
        self._users = UserConsoles(console)
        routes = [Route("/static/{version}/{path:path}", render.serve_static, methods=["GET"])]
        if isinstance(console.identities, Accounts):
            log_in_page = LogInPage(console, console.identities, self.tokens)
            console.identities.sessions.on_unused = self._users.end

            async def log_in(request: Request) -> Response:
                self._limit(request, None)
                return await log_in_page(request)

            routes.append(Route("/login", log_in, methods=["GET", "POST"]))
        posts = {action.path: action for section in console.sections for action in section.actions}
        self._pages = {page.path: page for section in console.sections for page in section.pages}
        for section in console.sections:
            routes += [Route(each.path, self._page(each), methods=["GET"]) for each in section.pages]
            routes += [Route(each.path, self._download(each), methods=["GET"]) for each in section.downloads]
        routes.append(Route("/preferences", self._endpoint(Role.VIEWER, login.save_preferences), methods=["POST"]))
        routes += [Route(path, self._action(action), methods=["POST"]) for path, action in posts.items()]
        self._routes = routes
        pages = (each for section in console.sections for each in section.pages if "{" not in each.path)
        self._fixed = {each.path: self._page(each) for each in pages}  # found without a search
        self._nowhere = self._endpoint(Role.VIEWER, _no_page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        scope = dict(scope)
        scope.setdefault("raw_path", scope["path"].encode())
        if scope["path"].startswith(_API + "/") or scope["path"] == _API:
            scope["gantrymq.api"] = True
            scope["path"] = scope["path"].removeprefix(_API) or "/"
            scope["raw_path"] = scope["raw_path"].removeprefix(_API.encode()) or b"/"
        request = Request(scope, receive)
        if scope["path"] == _HEALTH and request.method in ("GET", "HEAD"):  # probes have no log-in, and any Host
            await JSONResponse({"healthy": True})(scope, receive, send)
            return
        security.note_sender(request, self.console.exposure)
        try:
            response = await self._response(request)
            security.secured(response, self.console.exposure)
            self.tokens.keep(request, response)
            await response(scope, receive, send)
        except ClientDisconnect:
            return
        finally:  # a download uses the client of its user until here
            if "gantrymq.used" in scope:
                self._users.release(scope["gantrymq.used"])

    async def close(self) -> None:
        """Close the clients of users. Idempotent."""
        await self._users.close()

    async def _response(self, request: Request) -> Response:
        refused = security.refusal(request, self.console.exposure)
        if refused is not None:
            return PlainTextResponse(refused + "\n", 403)
        self.tokens.read(request)
        try:
            return await self._endpoint_of(request)(request)
        except ClientDisconnect:
            raise
        except HTTPException as problem:
            return PlainTextResponse(f"{problem.detail}\n", problem.status_code, problem.headers)
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            return PlainTextResponse("The console failed; its log has the details.\n", 500)

    def _endpoint_of(self, request: Request) -> Endpoint:
        """Return the endpoint of the address, which is in the request's scope then. Raises HTTPException: 405."""
        fixed = self._fixed.get(request.scope["path"])
        if fixed is not None and request.method == "GET":
            return fixed
        allowed: set[str] = set()
        for route in self._routes:
            match, found = route.matches(request.scope)
            if match is Match.FULL:
                request.scope.update(found)
                return cast("Endpoint", route.endpoint)
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            raise HTTPException(405, "This address does not serve the method.", {"Allow": ", ".join(sorted(allowed))})
        return self._nowhere

    def _page(self, page: Page) -> Endpoint:
        async def show(context: RequestContext) -> Response:
            if not context.is_live:
                return await made(context)
            with context.console.refreshes.pace.working(context.console.world.clock.monotonic):
                return await made(context)

        async def made(context: RequestContext) -> Response:
            if not context.is_api:
                context.form = self._actions.kept(context)
            try:
                view = await context.console.refreshes.view(context, page)
            except SeeOther as elsewhere:
                return RedirectResponse(context.link(*elsewhere.segments, **elsewhere.query), 303)
            shown = page if context.form is None else attrs.evolve(page, refresh_s=None)
            return responses.of_page(context, shown, view, self._actions.outcome(context))

        return self._endpoint(page.role, show)

    def _download(self, download: Download) -> Endpoint:
        async def make(context: RequestContext) -> Response:
            if download.bodies:
                await context.console.record_read(context, download.name, " ".join(context.names.values()))
            response = await download.make(context)
            response.headers["X-Accel-Buffering"] = "no"  # nginx forwards the response at once, without a file
            return response

        return self._endpoint(download.role, make)

    def _action(self, action: Action) -> Endpoint:
        async def run(context: RequestContext) -> Response:
            try:
                return await self._actions.run(action, context)
            except (BadInput, GantryError) as problem:
                page = self._pages.get(action.page or action.path)
                if page is None or context.is_api or isinstance(problem, Forbidden | Conflict):
                    raise
                return await self._with_form(context, page, problem)
            finally:
                context.console.refreshes.forget(context)

        return self._endpoint(action.role, run)

    async def _with_form(self, context: RequestContext, page: Page, problem: Exception) -> Response:
        """Return the page with the form that *problem* is about. Raises the problem if the page cannot be shown."""
        try:
            view = await page.show(context)
        except (BadInput, GantryError, SeeOther):
            raise problem from None
        return responses.with_form(context, page, view, problem)

    def _endpoint(self, role: Role, work: Callable[[RequestContext], Awaitable[Response]]) -> Endpoint:
        """Return an endpoint for users with *role*; the only place where roles are checked."""

        async def endpoint(request: Request) -> Response:
            user = await self.console.identities.user_of(request)
            self._limit(request, user)
            if user is None:
                return self._log_in(request)
            try:
                console = await self._console_of(request, user)
            except GantryError as problem:
                context = RequestContext(request, self.console, user, partial(self.tokens.token, request))
                return responses.failed(context, problem)
            context = RequestContext(request, console, user, partial(self.tokens.token, request))
            if not context.may(role):
                refused = Forbidden("common.forbidden", role=role.word, user=user.name, own=user.role.word)
                return responses.failed(context, refused)
            try:
                return await work(context)
            except (BadInput, GantryError, AuditUnwritable) as problem:
                return responses.failed(context, problem)

        return endpoint

    async def _console_of(self, request: Request, user: User) -> Console:
        """Return the console whose client signs with the user's credentials, if it has some.

        Raises:
            HTTPException: 503, too many users.
            ClientError: the client cannot be started.
        """
        if user.credentials is None:
            return self.console
        used = request.scope["gantrymq.used"] = await self._users.use(user.credentials)
        return used.console

    def _limit(self, request: Request, user: User | None) -> None:
        """Count a request of a session, or of an address without one. Raises HTTPException: 429.

        Without log-in there are no sessions, and only a console in a broker's process counts: its pages take the time
        of sends.
        """
        key = user.session if user is not None else f"address {network_of(request.scope['gantrymq.address'])}"
        if user is not None and self.console.in_broker:
            key = key or "everyone"
        if key and not self._rates.allow(key):
            raise HTTPException(429, "There are too many requests.", {"Retry-After": "1"})

    def _log_in(self, request: Request) -> Response:
        path = self.console.identities.login_path()
        if request.scope.get("gantrymq.api"):
            return JSONResponse({"error": "log in first, or send an API token", "code": None}, 401)
        if path is None:
            return PlainTextResponse("The proxy before this console named no user that the console knows.\n", 401)
        if request.query_params.get(LIVE) == "live":  # the session ended under an open page
            return PlainTextResponse("Log in again.\n", 401, {"HX-Refresh": "true"})
        if request.method not in security.SAFE:
            return PlainTextResponse("Log in first.\n", 401)
        return log_in_first(request, path)


async def _no_page(context: RequestContext) -> Response:
    raise NotFound("common.no_page")
