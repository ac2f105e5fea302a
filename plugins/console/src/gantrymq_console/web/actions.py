"""The steps of every change: role, form, preview, confirmation, audit, the change itself, result.

A form carries a digest of the preview that the user saw. If the preview computed at the confirmation differs, nothing
is changed and the new preview is shown with status 409. A form runs once: its id is kept until 10,000 newer ones.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from gantrymq.errors import GantryError
from gantrymq_console.access.audit import AuditUnwritable, Entry
from gantrymq_console.values import to_json
from gantrymq_console.web import responses
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.multipart import CONTENT_TYPE, read_multipart
from gantrymq_console.web.pages import Action, BadInput, Confirm, Conflict, Outcome, Preview, View

log = logging.getLogger(__name__)

_MOST_REMEMBERED: Final = 10_000
_HIDDEN: Final = ("csrf", "once", "confirm", "seen", "typed", "back")  # fields of the steps, not of the action
KEPT: Final = "kept"  # parameter of a page, for a form that was cancelled
_MOST_KEPT: Final = 100  # forms
_MOST_KEPT_CHARS: Final = 20_000  # of one form
_DRY_RUN: Final = "dry_run"  # field in JSON
_LARGE: Final = 64 * 1024  # bytes of a form that is read in a thread


@attrs.frozen
class ConfirmData:
    """Data of the page that asks for a confirmation."""

    preview: Preview
    form: Mapping[str, str]
    seen: str
    once: str
    changed: bool  # the preview differs from the one that was confirmed
    wrong_name: bool
    confirm: Confirm
    name: str
    back: str  # the page that the form was on
    cancel: str  # the same, with a parameter for the values of the form


class Actions:
    """Runs actions."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, None] = OrderedDict()
        self._done: OrderedDict[str, tuple[str, Outcome]] = OrderedDict()
        self._kept: OrderedDict[str, tuple[str, str, Mapping[str, str]]] = OrderedDict()  # user, page and form

    async def run(self, action: Action, context: RequestContext) -> Response:
        """Return the response to a POST of *action*."""
        given = await read_form(context, action.most_bytes)
        context.check_token(given.get("csrf", ""))
        context.form, context.came_from = given, given.get("back", "")
        form = {name: each for name, each in given.items() if name not in _HIDDEN and name != _DRY_RUN}
        if context.is_api:
            _check_names(action, context, form)
        dry_run = context.is_api and _dry_run(given)
        asks = dry_run or action.confirm is not Confirm.NONE
        preview = await action.preview(context, form) if action.preview is not None and asks else None
        if context.is_api:
            if dry_run:
                if preview is None:
                    raise BadInput("common.no_preview")
                return JSONResponse(to_json(preview.data))
        elif preview is not None and action.confirm is not Confirm.NONE:
            seen = _digest(preview)
            wrong_name = action.confirm is Confirm.TYPE_NAME and given.get("typed", "") != preview.target
            changed = "confirm" in given and given.get("seen") != seen
            if "confirm" not in given or changed or wrong_name:
                data = ConfirmData(
                    preview,
                    form if preview.form is None else preview.form,
                    seen,
                    secrets.token_hex(8),
                    changed,
                    "confirm" in given and wrong_name,
                    action.confirm,
                    action.name,
                    given.get("back", ""),
                    self._keep(action, context, form),
                )
                status = 409 if changed else 422 if "confirm" in given else 200
                title = context.texts(preview.button, **preview.button_fields).unescape() if preview.button else ""
                view = View("confirm.html", data, preview.command, title=title, status=status)
                return responses.html(context, view, action.name)
        if not context.is_api and not self._first_use(given.get("once", "")):
            raise Conflict("errors.sent_before")
        outcome = await self._audited(action, context, form, preview)
        return self._response(action, context, outcome)

    def outcome(self, context: RequestContext) -> Outcome | None:
        """Return the result of the action after which this page is shown."""
        if not self._done:
            return None
        user, outcome = self._done.get(context.text("done"), ("", None))
        return outcome if user == context.user.name else None

    def kept(self, context: RequestContext) -> Mapping[str, str] | None:
        """Return the values that the user entered on this page before cancelling the preview."""
        user, path, form = self._kept.get(context.text(KEPT), ("", "", None))
        return form if (user, path) == (context.user.name, context.path) else None

    def _keep(self, action: Action, context: RequestContext, form: Mapping[str, str]) -> str:
        """Keep a form for the link "Cancel", and return its page; forms on another page than their own are not kept."""
        back = context.came_from
        path = (action.page or action.path).format(**context.names)
        if unquote(urlsplit(back).path) != path or sum(map(len, (*form, *form.values()))) > _MOST_KEPT_CHARS:
            return back
        key = hashlib.sha256(json.dumps([context.user.name, path, dict(form)]).encode()).hexdigest()[:16]
        self._kept[key] = context.user.name, path, form
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return f"{back}{'&' if '?' in back else '?'}{KEPT}={key}"

    async def _audited(
        self, action: Action, context: RequestContext, form: Mapping[str, str], preview: Preview | None
    ) -> Outcome:
        target = preview.target if preview is not None and preview.target else " ".join(context.names.values())
        entry = Entry(
            context.now_ms(),
            secrets.token_hex(8),
            context.user.name,
            responses.address_of(context),
            action.name,
            target,
            preview.change if preview is not None else "",
        )
        audit = context.console.audit
        await audit.write(entry)
        result = "failed: cancelled"
        try:
            outcome = await action.run(context, form)
            result = "failed" if outcome.failed else "done"
        except GantryError as problem:
            result = f"failed: {problem}"
            raise
        except BadInput as problem:
            result = f"failed: {context.texts(problem.key, **problem.fields).unescape()}"
            raise
        finally:
            try:
                await audit.write(attrs.evolve(entry, time_ms=context.now_ms(), result=result))
            except AuditUnwritable as problem:  # the change was made, and its attempt is in the log
                log.error("the result %r of %s %s is not in the audit log: %s", result, action.name, target, problem)
        return outcome

    def _response(self, action: Action, context: RequestContext, outcome: Outcome) -> Response:
        if context.is_api:
            body = {"done": not outcome.failed, "text": context.texts(outcome.key, **outcome.fields).unescape()}
            return JSONResponse({**body, "data": to_json(outcome.data)}, 502 if outcome.failed else 200)
        if outcome.view is not None:
            return responses.html(context, outcome.view, action.name, outcome)
        done = secrets.token_hex(8)
        self._done[done] = context.user.name, outcome
        if len(self._done) > _MOST_REMEMBERED:
            self._done.popitem(last=False)
        segments = [each for each in outcome.to.split("/") if each]
        return RedirectResponse(context.link(*segments, **outcome.query, done=done), 303)

    def _first_use(self, once: str) -> bool:
        if not once or once in self._used:
            return False
        self._used[once] = None
        if len(self._used) > _MOST_REMEMBERED:
            self._used.popitem(last=False)
        return True


async def read_form(context: RequestContext, most_bytes: int) -> dict[str, str]:
    body = bytearray()
    async for chunk in context.request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, f"The form has more than {most_bytes} bytes.")
    kind = context.request.headers.get("content-type", "")
    parsing = partial(_parsed, kind, bytes(body), is_api=context.is_api)
    try:
        if len(body) < _LARGE:
            return parsing()
        return await context.console.world.workers.run(parsing)
    except RecursionError:
        raise HTTPException(400, "The form cannot be read: it is nested too deeply.") from None
    except ValueError as problem:
        raise HTTPException(400, f"The form cannot be read: {problem}") from None


def _parsed(kind: str, body: bytes, *, is_api: bool) -> dict[str, str]:
    """Return the values of a form. Raises ValueError, RecursionError or HTTPException: it cannot be read."""
    if not is_api and kind.partition(";")[0].strip().lower() == CONTENT_TYPE:
        return read_multipart(kind, body)
    if is_api and body:
        given: Any = json.loads(body, object_pairs_hook=_once_each)
        json.dumps(given, ensure_ascii=False).encode()  # raises for half a surrogate pair
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise HTTPException(400, "The body must be a JSON object of strings.")
        return given
    return dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=2000))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError: a name occurs twice, and the parser would take the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _check_names(action: Action, context: RequestContext, form: Mapping[str, str]) -> None:
    """Raises BadInput: a name that *action* does not know, such as a misspelt ``dry_run``, which would be ignored."""
    if context.request.query_params:
        raise BadInput("common.no_parameters")
    prefixes = tuple(each[:-1] for each in action.fields if each.endswith("*"))
    for name in form:
        if name not in action.fields and not (prefixes and name.startswith(prefixes)):
            known = [*action.fields, _DRY_RUN] if action.preview is not None else action.fields
            raise BadInput("common.unknown_field", name=name[:40], known=", ".join(known) or "-")


def _dry_run(given: Mapping[str, str]) -> bool:
    if given.get(_DRY_RUN, "true") != "true":
        raise BadInput("common.not_a_choice", name=_DRY_RUN, value=given[_DRY_RUN][:40], choices="true")
    return _DRY_RUN in given


def _digest(preview: Preview) -> str:
    facts = [preview.data, preview.change] if preview.steady is None else [preview.steady]
    text = json.dumps([to_json(facts), preview.target], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
