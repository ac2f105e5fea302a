"""Saved searches: any page of the console with its parameters, under a name, for its owner or for all users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs
from starlette.routing import compile_path

from gantrymq_console.access.users import Role, User
from gantrymq_console.data.saved import PAGE_CHARS, Saved
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Forbidden,
    Form,
    NotFound,
    Outcome,
    Page,
    Section,
    View,
)

_Run = Callable[[RequestContext, Form], Awaitable[Outcome]]

_SHARING: Final = Role.OPERATOR
_HERE: Final = "/saved"


@attrs.frozen
class SavedRow:
    """One search of the list."""

    id: str
    name: str
    owner: str  # without the mark of users of the cluster
    page: str
    shared: bool
    own: bool
    may_change: bool
    created_ms: int


@attrs.frozen
class SavedPage:
    """The searches that a visitor may open."""

    searches: Sequence[SavedRow]
    may_share: bool


def owner_of(user: User) -> str:
    """Return the owner of what *user* saves.

    A user of the cluster and a user of the console are two owners, even if their names are equal. Without log-in
    everyone is one user.
    """
    return f"cluster:{user.name}" if user.credentials is not None else user.name


def may_change(user: User, search: Saved) -> bool:
    """Return whether *user* may rename, share or delete a search: its owner, or an administrator if it is shared.

    The console has no roles for users of the cluster, so only owners change theirs.
    """
    own = search.owner == owner_of(user)
    return own or (search.shared and user.role >= Role.ADMIN and user.credentials is None)


async def show(context: RequestContext) -> View:
    """Show the visitor's searches, and those that are shared, as far as the role permits to open them."""
    owner = owner_of(context.user)
    rows = [
        SavedRow(
            each.id,
            each.name,
            each.owner.removeprefix("cluster:"),
            each.page,
            each.shared,
            each.owner == owner,
            may_change(context.user, each),
            each.created_ms,
        )
        for each in await context.console.saved.all()
        if (each.owner == owner or each.shared) and _may_open(context, each.page)
    ]
    rows.sort(key=lambda row: (not row.own, row.name.lower()))
    return View("saved.html", SavedPage(rows, context.may(_SHARING)))


async def add(context: RequestContext, form: Form) -> Outcome:
    """Save the page that the form names."""
    page, shared = form.get("page", ""), form.get("shared") == "on"
    if not _may_open(context, page):
        raise BadInput("saved.no_page")
    _check_sharing(context, shared)
    made = await context.console.saved.add(owner_of(context.user), form.get("name", ""), page, shared=shared)
    return Outcome("saved.added", {"name": made.name}, _HERE, data={"id": made.id})


async def rename(context: RequestContext, form: Form) -> Outcome:
    """Give a search another name."""
    found = await _to_change(context)
    changed = await context.console.saved.rename(found.id, form.get("name", ""))
    return Outcome("saved.renamed", {"old": found.name, "name": changed.name}, _HERE)


async def share(context: RequestContext, form: Form) -> Outcome:
    """Share a search with all users, or make it private."""
    found, shared = await _to_change(context), form.get("shared") == "on"
    _check_sharing(context, shared)
    await context.console.saved.share(found.id, shared=shared)
    return Outcome("saved.is_shared" if shared else "saved.is_private", {"name": found.name}, _HERE)


async def delete(context: RequestContext, form: Form) -> Outcome:
    """Delete a search."""
    found = await _to_change(context)
    await context.console.saved.delete(found.id)
    return Outcome("saved.deleted", {"name": found.name}, _HERE)


async def _to_change(context: RequestContext) -> Saved:
    """Return the search of the address. Raises NotFound, also for another user's private one; Forbidden."""
    found = await context.console.saved.find(context.names["id"])
    if not may_change(context.user, found):
        if not found.shared:
            raise NotFound("saved.not_there")
        raise Forbidden("saved.not_yours", owner=found.owner.removeprefix("cluster:"))
    return found


def _check_sharing(context: RequestContext, shared: bool) -> None:
    if shared and not context.may(_SHARING):
        fields = {"role": _SHARING.word, "user": context.user.name, "own": context.user.role.word}
        raise Forbidden("common.forbidden", **fields)


def _may_open(context: RequestContext, page: str) -> bool:
    """Return whether *page* is the address of a page within the console that the user's role permits."""
    if not page.startswith("/") or len(page) > PAGE_CHARS or not page.isprintable():
        return False
    try:
        path = unquote(urlsplit(f"//console{page}").path)
    except ValueError:
        return False
    pages = (each for section in context.console.sections for each in section.pages)
    found = next((each for each in pages if compile_path(each.path)[0].match(path)), None)
    return found is not None and context.may(found.role)


def _changing(path: str, name: str, run: _Run, fields: Sequence[str] = ()) -> Action:
    return Action(path, name, Role.VIEWER, run, confirm=Confirm.NONE, fields=fields)


SECTION = Section(
    pages=(Page("/saved", "saved.title", Role.VIEWER, show, refresh_s=None),),
    actions=(
        _changing("/saved/add", "saved.add", add, ("name", "page", "shared")),
        _changing("/saved/{id}/rename", "saved.rename", rename, ("name",)),
        _changing("/saved/{id}/share", "saved.share", share, ("shared",)),
        _changing("/saved/{id}/delete", "saved.delete", delete),
    ),
)
