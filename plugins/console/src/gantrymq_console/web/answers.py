"""Responses: a page as HTML or JSON, errors in both forms, refreshes."""

from __future__ import annotations

from typing import Any

import attrs
from starlette.responses import HTMLResponse, JSONResponse, Response

from gantrymq.errors import (
    BrokerRefused,
    CallTimeout,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    GantryError,
    GroupNotExist,
    NoMessageFound,
    NoRoute,
)
from gantrymq_console.web.pages import BadInput, Forbidden, NotFound, Outcome, Page, View
from gantrymq_console.web.render import render
from gantrymq_console.web.values import to_json
from gantrymq_console.web.visit import Visit

__all__ = ["address_of", "failed", "html", "of_page"]


@attrs.frozen
class Failure:
    """Data of an error page."""

    status: int
    sentence: str
    code: int | None = None  # response code of a refusal


def of_page(visit: Visit, page: Page, view: View, outcome: Outcome | None) -> Response:
    """Return the response of a page."""
    if visit.is_api:
        return JSONResponse(
            {
                "data": to_json(view.data),
                "missing": to_json(view.missing),
                "as_of_ms": view.as_of_ms or visit.now_ms(),
                "command": view.command,
            },
            view.status,
        )
    return html(visit, view, page.name, outcome, page)


def html(visit: Visit, view: View, name: str, outcome: Outcome | None = None, page: Page | None = None) -> Response:
    """Return a page of HTML; for a refresh only its main part, with status 304 if that is unchanged."""

    def made() -> str:
        return render(
            view.template,
            visit,
            data=view.data,
            view=view,
            name=name,
            nav=page.nav if page is not None else "",
            refresh_s=page.refresh_s if page is not None else None,
            outcome=outcome,
            actions=visit.console.parts,
        )

    if not visit.is_live:
        return HTMLResponse(made(), view.status)
    refreshes = visit.console.refreshes
    tag = refreshes.tag(visit, view)
    if visit.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return HTMLResponse(made() if outcome is not None else refreshes.text(visit, tag, made), view.status, {"ETag": tag})


def failed(visit: Visit, problem: Exception) -> Response:
    """Return the response for an error: the server's sentence, and its code."""
    failure = _failure(visit, problem)
    if visit.is_api:
        body: dict[str, Any] = {"error": failure.sentence, "code": failure.code}
        return JSONResponse(body, failure.status)
    return html(visit, View("error.html", failure, status=failure.status), "common.error")


def _failure(visit: Visit, problem: Exception) -> Failure:
    match problem:
        case NotFound():
            return Failure(404, visit.texts(problem.key, **problem.fields).unescape())
        case Forbidden():
            return Failure(403, visit.texts(problem.key, **problem.fields).unescape())
        case BadInput():
            return Failure(400, visit.texts(problem.key, **problem.fields).unescape())
        case NoRoute() | NoMessageFound() | GroupNotExist():
            return Failure(404, str(problem))
        case BrokerRefused():
            return Failure(502, str(problem), problem.response_code)
        case CallTimeout() | ConnectFailed() | ConnectionLost():
            return Failure(504, str(problem))
        case ClientError() | GantryError():
            return Failure(400, str(problem))
        case _:
            raise problem


def address_of(visit: Visit) -> str:
    """Return the address of the visitor, as a trusted proxy reports it."""
    return str(visit.request.scope.get("gantrymq.address", ""))
