"""Users and policies of the cluster's access control: lists, one user, and who may do something."""

from __future__ import annotations

from shlex import quote
from typing import Final

import attrs

from gantrymq.errors import GantryError
from gantrymq_access.explaining import Question, asked_resource, asked_source
from gantrymq_access.records import EntryAction
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data.access import (
    KINDS,
    EntryRow,
    UserRow,
    Verdict,
    entry_list,
    entry_rows,
    found_access,
    permitted,
    user_list,
    user_rows,
    verdicts,
)
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import BadInput, NotFound, Page, Section, View

ACTIONS: Final = tuple(
    each.value for each in EntryAction if each not in (EntryAction.ALL, EntryAction.ANY, EntryAction.LIST)
)
_NAV: Final = "access"


@attrs.frozen
class QuestionForm:
    """The form that asks about a resource."""

    action: str
    resource: str
    source: str  # address of the client; empty: unknown
    actions: tuple[str, ...] = ACTIONS


@attrs.frozen
class UserPage:
    """One user, and the answer to a question about it."""

    name: str
    users: tuple[UserRow, ...]
    entries: tuple[EntryRow, ...]
    question: QuestionForm
    verdicts: tuple[Verdict, ...]  # none without a question
    uncontrolled: tuple[str, ...]


@attrs.frozen
class WhoPage:
    """The users who may do something."""

    question: QuestionForm
    users: tuple[Verdict, ...]
    start: int
    total: Long | None  # None: nothing was asked
    uncontrolled: tuple[str, ...]


async def users(context: RequestContext) -> View:
    """Show a page of the users."""
    asking = Asking(context.console.world.clock)
    found = await found_access(context.cluster, asking)
    data = user_list(found, context.list_query("kind", KINDS, ("name",)))
    return View("access_users.html", data, "user list", asking.missing)


async def policies(context: RequestContext) -> View:
    """Show a page of the entries of all users."""
    asking = Asking(context.console.world.clock)
    found = await found_access(context.cluster, asking)
    query = context.list_query("kind", ("all", "allow", "deny"), ("user", "resource"), ("user", "resource"))
    return View("access_policies.html", entry_list(found, query), "acl list", asking.missing)


async def user(context: RequestContext) -> View:
    """Show one user with its policies, and whether it may do what is asked."""
    name = context.text("name")
    if not name:
        raise NotFound("access.no_name")
    asking = Asking(context.console.world.clock)
    found = await found_access(context.cluster, asking, name)
    rows = tuple(user_rows(found))
    if not rows and found.brokers and not found.partial:
        raise NotFound("access.no_user", user=name)
    form = _form(context)
    question, problem = _question(form)
    answers = () if question is None else tuple(verdicts(found, [name], question))
    data = UserPage(name, rows, tuple(entry_rows(found)), form, answers, found.uncontrolled)
    command = f"acl get {quote(name)}" if question is None else f"access explain {quote(name)} {_words(form)}"
    return View("access_user.html", data, command, asking.missing, title=name, problem=problem)


async def who(context: RequestContext) -> View:
    """Show the users who may do what is asked."""
    form = _form(context)
    question, problem = _question(form)
    if question is None:
        return View("access_who.html", WhoPage(form, (), 0, None, ()), problem=problem)
    asking = Asking(context.console.world.clock)
    found = await found_access(context.cluster, asking)
    rows = await context.console.world.workers.run(permitted, found, question)
    start = context.start
    shown = tuple(rows[start : start + context.rows])
    return View(
        "access_who.html", WhoPage(form, shown, start, Long(len(rows)), found.uncontrolled), missing=asking.missing
    )


def _form(context: RequestContext) -> QuestionForm:
    return QuestionForm(context.choice("action", ACTIONS), context.text("resource"), context.text("from"))


def _question(form: QuestionForm) -> tuple[Question | None, BadInput | None]:
    """Return the question, or why there is none; neither if the form is empty."""
    if not form.resource:
        return None, None
    try:
        resource = asked_resource(form.resource)
    except GantryError:
        return None, BadInput("access.no_resource", resource=form.resource[:80])
    try:
        source = asked_source(form.source) if form.source else ""
    except GantryError:
        return None, BadInput("access.no_address", address=form.source[:80])
    return Question((EntryAction(form.action),), resource, source), None


def _words(form: QuestionForm) -> str:
    source = f" --from {quote(form.source)}" if form.source else ""
    return f"{form.action} {quote(form.resource)}{source}"


SECTION = Section(
    pages=(
        Page("/access", "access.users", Role.VIEWER, users, None, nav=_NAV),
        Page("/access/policies", "access.policies", Role.VIEWER, policies, None, nav=_NAV),
        Page("/access/user", "access.user", Role.VIEWER, user, None, nav=_NAV),
        Page("/access/who", "access.who", Role.VIEWER, who, None, nav=_NAV),
    )
)
