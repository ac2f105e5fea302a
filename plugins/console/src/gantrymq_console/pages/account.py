"""The visitor's own account: name, role, sessions; log out here or everywhere."""

from __future__ import annotations

import attrs

from gantrymq_console.access.users import Role
from gantrymq_console.web.pages import Action, Confirm, Form, Outcome, Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]


@attrs.frozen
class AccountData:
    """The account."""

    user: str
    role: Role
    roles: tuple[Role, ...]  # all roles, for the explanation
    sessions: int  # 0 without log-in
    csrf_token: str  # for X-CSRF-Token in requests of scripts with the cookie of a session


async def account(visit: Visit) -> View:
    """Show the account."""
    user = visit.user
    sessions = visit.console.identities.sessions_of(user.name)
    return View("account.html", AccountData(user.name, user.role, tuple(Role), sessions, visit.token))


async def log_out(visit: Visit, form: Form) -> Outcome:
    """End this session, or all sessions of the user."""
    visit.console.identities.log_out(visit.request, everywhere=form.get("everywhere") == "yes")
    return Outcome("account.logged_out")


PART = Part(
    "account",
    pages=(Page("/account", "account.title", Role.VIEWER, account, refresh_s=None),),
    actions=(Action("/logout", "account.log_out", Role.VIEWER, log_out, confirm=Confirm.NONE, fields=("everywhere",)),),
)
