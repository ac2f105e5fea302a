"""Responses: a page as HTML or JSON, errors in both forms, refreshes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from starlette.responses import HTMLResponse, JSONResponse, Response

from gantrymq.client import SendFailed
from gantrymq.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    GantryError,
    GroupNotExist,
    NoMessageFound,
    NoPermission,
    NoRoute,
)
from gantrymq.plugin.client import SendNotConnected, SendTimedOut
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_console.access.audit import AuditUnwritable
from gantrymq_console.data.cluster import RouteUnknown
from gantrymq_console.values import to_json
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import BadInput, Conflict, Forbidden, NotAccepted, NotFound, Outcome, Page, View
from gantrymq_console.web.render import render

DUE: Final = "Gantrymq-Refresh"  # header: seconds after which a page should ask again
_KINDS: Final = (
    (RouteUnknown, 504, "route_unknown"),
    (NoRoute, 404, "no_route"),
    (NoMessageFound, 404, "no_message"),
    (GroupNotExist, 404, "no_group"),
    (SendTimedOut, 504, "timeout"),
    (SendNotConnected, 504, "connect"),
    (CallTimeout, 504, "timeout"),
    (ConnectFailed, 504, "connect"),
    (ConnectionLost, 504, "lost"),
)
"""Errors, their status, and the word of their text."""


@attrs.frozen
class Failure:
    """Data of an error page."""

    status: int
    sentence: str  # a text of the console, or if *word* is set the words of a server or client
    code: int | None = None  # response code of a refusal
    word: str = ""  # the texts ``errors.<word>`` and ``errors.do_<word>`` describe the error and the remedy
    place: str = ""  # address of the server
    links: tuple[tuple[str, ...], ...] = ()  # segments of pages with details
    words: str = ""  # of a server, behind the sentence
    cause: str = ""  # name of the cause, if a store refuses messages
    values: Mapping[str, str | int] = attrs.field(factory=dict)  # of the cause

    @property
    def code_name(self) -> str:
        """RocketMQ's name of the response code; empty if it has none here."""
        return ResponseCode(self.code).name if self.code in set(ResponseCode) else ""


def of_page(context: RequestContext, page: Page, view: View, outcome: Outcome | None) -> Response:
    """Return the response of a page."""
    if context.is_api:
        return JSONResponse(
            {
                "data": to_json(view.data),
                "missing": to_json(view.missing),
                "as_of_ms": view.as_of_ms or context.now_ms(),
                "command": view.command,
            },
            view.status,
        )
    return html(context, view, page.name, outcome, page)


def html(
    context: RequestContext,
    view: View,
    name: str,
    outcome: Outcome | None = None,
    page: Page | None = None,
    failure: Failure | None = None,
) -> Response:
    """Return a page of HTML; for a refresh only its main part, with status 304 if that is unchanged."""

    if view.problem is not None:
        failure = _failure(context, view.problem)

    def made(shared: bool = False) -> str:
        return render(
            view.template,
            context,
            shared=shared,
            data=view.data,
            view=view,
            name=name,
            nav=page.nav if page is not None else context.path.split("/")[1],
            refresh_s=page.refresh_s if page is not None else None,
            outcome=outcome,
            failure=failure,
            shareable=page is not None and view.status == 200,
            actions=context.console.sections,
        )

    if not context.is_live or context.form is not None:
        return HTMLResponse(made(), view.status)
    refreshes = context.console.refreshes
    tag = refreshes.tag(context, view)
    etag = refreshes.etag(context, tag)
    headers = {"ETag": etag, "Age": str(context.age_s)}
    if context.due_s:
        headers[DUE] = f"{context.due_s:.1f}"
    refreshes.pace.note(context.console.world.clock.monotonic(), context.due_s)
    given = context.request.headers.get("if-none-match", "")
    if given.removeprefix("W/") == etag:  # a proxy that compresses makes tags weak
        return Response(status_code=304, headers=headers)
    if outcome is not None:
        return HTMLResponse(made(), view.status, headers)
    return HTMLResponse(refreshes.text(context, tag, lambda: made(shared=True)), view.status, headers)


def failed(context: RequestContext, problem: Exception) -> Response:
    """Return the response for an error: the server's sentence, and its code."""
    failure = _failure(context, problem)
    if context.is_api:
        body: dict[str, Any] = {"error": f"{failure.sentence} {failure.words}".strip(), "code": failure.code}
        return JSONResponse(body, failure.status)
    return html(context, View("error.html", failure, status=failure.status), "common.error")


def with_form(context: RequestContext, page: Page, view: View, problem: Exception) -> Response:
    """Return a page again whose form was sent and cannot be used, with the error above it."""
    failure = _failure(context, problem)
    page, view = attrs.evolve(page, refresh_s=None), attrs.evolve(view, status=failure.status)
    return html(context, view, page.name, None, page, failure)


def _failure(context: RequestContext, problem: Exception) -> Failure:
    match problem:
        case NotFound():
            return Failure(404, context.texts(problem.key, **problem.fields).unescape())
        case Forbidden():
            return Failure(403, context.texts(problem.key, **problem.fields).unescape())
        case Conflict():
            return Failure(409, context.texts(problem.key, **problem.fields).unescape())
        case NotAccepted():
            sentence = context.texts(problem.key, **problem.fields).unescape()
            return Failure(
                503, sentence, links=problem.links, words=problem.words, cause=problem.cause, values=problem.values
            )
        case BadInput():
            return Failure(400, context.texts(problem.key, **problem.fields).unescape())
        case AuditUnwritable():
            return Failure(503, str(problem), word="audit")
        case BrokerRefused() if isinstance(problem, NoPermission):  # by access control
            return Failure(403, str(problem), problem.response_code, "denied", problem.address)
        case BrokerRefused():
            word = f"refused_{problem.response_code}"
            word = word if f"errors.{word}" in context.texts.table else "refused"
            return Failure(502, str(problem), problem.response_code, word, problem.address)
        case ClientError() | GantryError():
            found = ((status, word) for kind, status, word in _KINDS if isinstance(problem, kind))
            status, word = next(found, (400, "other"))
            place = ", ".join(dict.fromkeys(problem.brokers)) if isinstance(problem, SendFailed) else ""
            return Failure(status, str(problem), word=word, place=getattr(problem, "address", "") or place)
        case _:
            raise problem


def address_of(context: RequestContext) -> str:
    """Return the address of the visitor, as a trusted proxy reports it."""
    return str(context.request.scope.get("gantrymq.address", ""))
