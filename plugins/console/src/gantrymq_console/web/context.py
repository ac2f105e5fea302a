"""The context of a request to the console: the user, the language, parameters of the address, and relative links.

All links are relative, so that the console works below any path of a reverse proxy without knowing the path.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.requests import Request

from gantrymq_console.access.users import Role, User
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.table import ListQuery
from gantrymq_console.web.pages import BadInput, Forbidden, NotFound
from gantrymq_console.web.security import SAFE
from gantrymq_console.web.texts import LANGUAGES, best_language, texts_of

if TYPE_CHECKING:
    from gantrymq_console.web.console import Console
    from gantrymq_console.web.jobs import Job

ROWS: Final = 50  # of a list, by default
_MOST_ROWS: Final = 200
THEMES: Final = ("system", "light", "dark")
ZONES: Final = ("viewer", "utc")
LIVE: Final = "part"  # parameter of refreshes, which want the main part of the page only
_LIVE_QUERY: Final = b"part=live"


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


class RequestContext:
    """One request and its visitor."""

    def __init__(self, request: Request, console: Console, user: User, token: Callable[[], str]) -> None:
        """Create it for a known user; *token* returns that for forms, see `gantrymq_console.web.security`."""
        self._token = token
        self.age_s = 0  # of the view
        self.due_s = 0.0  # seconds until the view should be refreshed, if visitors share it
        self.form: Mapping[str, str] | None = None  # of an action
        self.prepared: Any = None  # by the preview of an action, for the action in the same request
        self.came_from = ""  # page with the form of an action, as of `page_of`
        self.request = request
        self.console = console
        self.user = user
        self.is_api = request.scope.get("gantrymq.api", False)
        self.texts = texts_of(self._language())
        theme = request.cookies.get("theme", "system")
        self.theme = theme if theme in THEMES else "system"
        zone = request.cookies.get("zone", "viewer")
        self.zone = zone if zone in ZONES else "viewer"

    def _language(self) -> str:
        wanted = self.request.cookies.get("lang", "")
        return wanted if wanted in LANGUAGES else best_language(self.request.headers.get("accept-language", ""))

    @property
    def token(self) -> str:
        """The token for forms of this browser."""
        return self._token()

    @property
    def known_token(self) -> str:
        """The token of this browser; empty before its first form, which gives it an id."""
        return self._token() if "gantrymq.browser" in self.request.scope else ""

    @property
    def keys(self) -> bool:
        """Whether keyboard shortcuts are on."""
        return self.request.cookies.get("keys", "on") == "on"

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.console.cluster

    @property
    def path(self) -> str:
        """The decoded path within the console."""
        return str(self.request.scope["path"])

    @property
    def is_live(self) -> bool:
        """Whether this is a refresh of the main part of the page. The response to a form never is."""
        if self.request.method not in SAFE:
            return False
        query = self.request.scope["query_string"]
        return query == _LIVE_QUERY or (bool(query) and self.request.query_params.get(LIVE) == "live")

    @property
    def names(self) -> Mapping[str, str]:
        """The fields of the path, such as ``topic``."""
        return self.request.path_params

    def job(self, kind: str, unknown: str, fits: Callable[[Any], bool] = lambda _progress: True) -> Job[Any]:
        """Return the visitor's job that the path names.

        Args:
            kind: of the job.
            unknown: the text if there is none.
            fits: whether the job with a progress is one of this page.

        Raises:
            NotFound: it is not known any more, is another user's, or does not fit.
        """
        found = self.console.jobs.find(self.names["job"], kind, self.user.name)
        if found is None or not fits(found.progress):
            raise NotFound(unknown)
        return found

    def may(self, role: Role) -> bool:
        """Return whether the user has at least *role*."""
        return self.user.role >= role

    def now_ms(self) -> int:
        """Return the console's wall time."""
        return self.console.world.clock.now_ms()

    def check_token(self, token: str) -> None:
        """Check the token of a form or of the header X-CSRF-Token. Raises Forbidden: it is not this browser's.

        Requests with an API token need none: no browser adds API tokens by itself.
        """
        given = token or self.request.headers.get("x-csrf-token", "")
        same = hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token().encode())
        if self.user.by_browser and not same:
            raise Forbidden("common.wrong_token")

    # --- parameters ---

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter of the query without surrounding blanks."""
        return self.request.query_params.get(name, default).strip()

    def number(self, name: str, default: int, *, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
        """Return a parameter as a number. Raises BadInput: not a number, or out of bounds."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and at_least <= int(text[:20]) <= at_most):
            raise BadInput("common.not_a_number", name=name, value=text[:40], least=at_least, most=at_most)
        return int(text)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return a parameter that is one of *choices*, by default the first. Raises BadInput for any other value."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise BadInput("common.not_a_choice", name=name, value=text[:40], choices=", ".join(choices))
        return text

    def list_query(
        self, kind: str, kinds: tuple[str, ...], sorts: tuple[str, ...], ascending: Collection[str] = ("name",)
    ) -> ListQuery:
        """Return which page of a list the address asks for.

        Args:
            kind: name of the parameter that selects one of *kinds*.
            kinds: kinds of rows, the default first.
            sorts: orders, the default first.
            ascending: orders that ascend by default; others descend.

        Raises:
            BadInput: a parameter has none of its values.
        """
        chosen, sort = self.choice(kind, kinds), self.choice("sort", sorts)
        down = self.choice("order", ("up", "down") if sort in ascending else ("down", "up")) == "down"
        return ListQuery(self.text("filter"), chosen, sort, down, self.start, self.rows)

    @property
    def start(self) -> int:
        """Number of rows before the page of a list."""
        return self.number("start", 0)

    @property
    def rows(self) -> int:
        """Number of rows of a list's page."""
        return self.number("rows", ROWS, at_least=1, at_most=_MOST_ROWS)

    def typed(self, name: str, default: Any = "") -> Any:
        """Return the value for a field of a form: the typed text if the form is shown again after an error."""
        return default if self.form is None else self.form.get(name, default)

    def typed_ms(self, name: str) -> int | None:
        """Return the time that was typed into a field of the macro ``moment_field``, None if it was none."""
        try:
            return None if self.form is None else moment_of(self.form, name)
        except BadInput:
            return None

    def ticked(self, name: str, default: bool) -> bool:
        """Return whether a checkbox is to be checked."""
        return default if self.form is None else name in self.form

    # --- links ---

    def link(self, *segments: str, **query: Any) -> str:
        """Return a relative link to the page with these path segments, such as ``link("topics", name)``.

        Args:
            *segments: of the path, not encoded; none for the home page.
            **query: parameters; those that are None or empty are left out.
        """
        return link_to(self.request, "/".join(quote(each, safe="") for each in segments)) + _query(query)

    def inside(self, page: str) -> str:
        """Return a relative link to a page given as by `page_of`. It stays in the console, whatever the text is."""
        try:
            found = urlsplit(page)
            query = dict(parse_qsl(found.query))
        except ValueError:
            return self.link()
        segments = [unquote(each) for each in found.path.split("/")]
        return self.link(*(each for each in segments if each not in ("", ".", ".."))) + _query(query)

    def here(self, **changed: Any) -> str:
        """Return a relative link to this page with some parameters changed, or removed if None."""
        query = {name: each for name, each in self.request.query_params.items() if name not in (LIVE, "done")}
        last = _raw_path(self.request).rpartition("/")[2]
        return (last or "./") + _query({**query, **changed})

    def page(self, **changed: Any) -> str:
        """Return the path and query of this page within the console, with some parameters changed, or removed if None.

        Unlike `back`, it has no parameters that are for one visit only.
        """
        query = {name: each for name, each in self.request.query_params.items() if name not in (LIVE, "done", "kept")}
        return _raw_path(self.request) + _query({**query, **changed})

    @property
    def back(self) -> str:
        """The path and query of this page within the console; for the result of a form, the page that had the form."""
        return page_of(self.request) if self.request.method == "GET" else self.came_from or "/"

    @property
    def api(self) -> str:
        """Link to the JSON twin of this page."""
        return self.link("api", "v1") + (page_of(self.request) if self.request.method == "GET" else "/")


def page_of(request: Request) -> str:
    """Return the path and query of a page within the console, without parameters that are for one response only."""
    if request.scope["query_string"] in (b"", _LIVE_QUERY):
        return _raw_path(request)
    query = [pair for pair in request.query_params.multi_items() if pair[0] not in (LIVE, "done")]
    return _raw_path(request) + (f"?{urlencode(query)}" if query else "")


def link_to(request: Request, path: str) -> str:
    """Return a relative link to an encoded path of the console without the first slash, from the page of *request*."""
    return "../" * (_raw_path(request).count("/") - 1) + path or "./"


def _raw_path(request: Request) -> str:
    return str(request.scope["raw_path"].decode("ascii", "replace").partition("?")[0])


def _query(query: Mapping[str, Any]) -> str:
    pairs = {name: each for name, each in query.items() if each not in (None, "")}
    return f"?{urlencode(pairs)}" if pairs else ""
